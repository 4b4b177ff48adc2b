"""Putting a run's context together again from what is on disk."""
