"""Exports to files that other programs read."""
