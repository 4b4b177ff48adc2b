"""One module a command; errors become exit codes in one place."""
