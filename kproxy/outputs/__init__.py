"""Where trace lines go besides the trace: a file per output."""
