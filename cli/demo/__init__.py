"""The demo: the story it plays, and the machines it plays on."""
