"""Reading recordings: ``firsthand.open`` and what it gives."""
