"""A self-contained HTML page of a capture or trace; it makes no network requests."""
