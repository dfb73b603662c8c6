"""The control socket of a running proxy: a Unix socket to watch, query and stop it."""
