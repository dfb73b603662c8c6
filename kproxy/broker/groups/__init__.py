"""Groups of the built-in broker: classic and consumer groups, and committed offsets."""
