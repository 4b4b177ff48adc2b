"""One file per command; commands never import commands."""
