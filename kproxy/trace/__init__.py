"""The trace: how its lines are defined, encoded, written and read."""
