"""Work trees of a clone: what git says about them, the run in each, creating one for a run, and removing it."""
