"""One side of an exchange as a tree of fields, with their bytes and records."""
