"""The HoloLens 2 through the hl2ss server app: its client, and a simulator of it."""
