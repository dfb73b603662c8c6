"""The report: one page that says what the traces of a fleet come to, and opens offline."""
