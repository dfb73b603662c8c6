"""Groups of the built-in broker: classic and consumer groups, and the offsets that groups commit."""
