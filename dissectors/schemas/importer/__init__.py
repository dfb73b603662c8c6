"""The importer without I/O: turns the definitions of releases into the data files and a report of changes."""
