"""The `run` group: start, resume, list, finish, forget."""
