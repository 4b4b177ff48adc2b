"""Pure folds of events."""
