"""The I/O of the schema importer: gets jars from Maven or a directory, and runs Java to read Kafka's classes."""
