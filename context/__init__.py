"""A run's surroundings: its files, its workflow, its artifacts, and what the agent is given."""
