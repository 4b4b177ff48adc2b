"""Files that other tools own: read with care, replaced whole or not at all; measuring and cutting text."""
