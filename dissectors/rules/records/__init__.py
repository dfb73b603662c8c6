"""Family R: records and batches."""
