"""Where the importer meets the world: jars from Maven or a directory, and Java for what only the classes know."""
