"""Packet log, recorder, finaliser, reader, check and recovery."""
