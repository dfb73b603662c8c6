"""The report: a self-contained page that summarizes the traces of a fleet."""
