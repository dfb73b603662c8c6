"""The fault matrix: real clients, the built-in broker with one fault each, and what a live kproxy says first."""
