"""Work trees of a clone: what git says about them, surveying, removing, handing back."""
