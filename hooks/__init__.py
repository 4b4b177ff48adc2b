"""The client's four hooks: the program they run, what each answers, and the client's settings."""
