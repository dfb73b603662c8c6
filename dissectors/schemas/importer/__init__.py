"""The importer's pure part: one release's definitions in, the project's data files and a report of changes out."""
