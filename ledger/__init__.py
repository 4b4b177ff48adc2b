"""The log: what can happen, how it is written, read and verified."""
