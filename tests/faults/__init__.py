"""The fault matrix: real clients meet a fault of the built-in broker, and the first report about it is judged."""
