"""Kafka's wire types and message layouts: decoding to values or to a tree of spans, and encoding."""
