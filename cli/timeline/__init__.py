"""The timeline: a run drawn as one HTML page."""
