"""The demo: its story and its machines."""
