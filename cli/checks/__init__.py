"""What `doctor` looks at: one small function a check, one module a theme, and the table of them all."""
