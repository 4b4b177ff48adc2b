"""Drawing a run as one page."""
