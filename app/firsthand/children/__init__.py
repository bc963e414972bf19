"""Child processes with typed messages: start, limit, talk to, and end them without a trace."""
