"""The overviews as tables of plain values, for a page: columns with kinds, rows with facts and links to frames."""
