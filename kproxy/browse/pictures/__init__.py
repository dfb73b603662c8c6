"""Pictures of the rows of a view: numbers over time, which a page draws."""
