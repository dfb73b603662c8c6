"""What a trace sums up to, a module for each view."""
