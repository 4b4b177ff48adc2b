"""What `doctor` checks, one module per theme, and what it fixes."""
