"""Work trees of a clone: what git says of them, surveying, removing, handing back."""
