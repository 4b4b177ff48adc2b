"""Helpers that tests share: projects, clones, logs, patients, a browser."""
