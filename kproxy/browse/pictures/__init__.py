"""Pictures of the rows of a view: numbers over time for a page to draw."""
