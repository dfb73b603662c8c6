"""The control socket of a running proxy: a Unix socket over which it is watched, asked and stopped."""
