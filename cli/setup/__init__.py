"""What `init` and `uninstall` change, as changes to files and to git's configuration."""
