"""Pipes, standard input, compression and processes."""
