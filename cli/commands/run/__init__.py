"""The commands of the group `run`: start, resume, list, finish and forget."""
