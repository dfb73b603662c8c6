"""The fault matrix: real clients, the built-in broker with one fault each, and the first report of a live kproxy."""
