"""Consumer groups that make no progress: one rule for each kind of stall (`dissectors.groups.stalls`)."""
