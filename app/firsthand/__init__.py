"""Firsthand: study software for learning from a demonstration."""

__version__ = "0.1.0"
