"""What a viewer of traces needs, without a screen: an index of what happened, its details, and what it sums up to."""
