"""The Model Context Protocol: an agent asks, and records, by calling tools instead of running commands."""
