"""Kafka protocol knowledge without I/O: bytes and times in, events and findings out."""
