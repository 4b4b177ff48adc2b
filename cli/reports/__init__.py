"""What commands find out, and print as data and lines: nothing here prints; a load of context records itself."""
