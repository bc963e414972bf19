"""Child processes with limits, and typed messages between processes."""
