"""The importer without I/O: the definitions of a release in, the data files and a report of changes out."""
