"""The I/O of the schema importer: jars from Maven or a directory, and Java to read Kafka's classes."""
