"""Ways to count in fixed memory, which the overviews share."""
