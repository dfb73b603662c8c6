"""Where lines come from: a file of each kind, a directory, a running proxy."""
