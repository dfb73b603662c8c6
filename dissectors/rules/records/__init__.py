"""R: records and batches."""
