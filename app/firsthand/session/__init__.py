"""Protocols, the session machine, and what carries a session out."""
