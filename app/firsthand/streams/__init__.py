"""Streams in motion: fan-out, clocks, health, gaps, geometry."""
