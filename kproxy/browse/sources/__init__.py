"""Sources of trace lines: files, directories, a running proxy."""
