"""Finds plugins, refuses what is wrong with them, and guards every call."""
