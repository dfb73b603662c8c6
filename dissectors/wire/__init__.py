"""Wire types and layouts: bytes to values and back, with the span of every field."""
