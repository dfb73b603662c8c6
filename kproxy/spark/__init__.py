"""Trace analytics on Spark. Everything below imports pyspark; nothing outside of it does."""
