"""What `init` and `uninstall` change: files and git's configuration."""
