"""Broken frames made without kproxy: Kafka's definitions, a reader, a writer, and the ways to break a frame.

Nothing here but `accuracy.py` and the reading of captures imports the packages under test, so a blind spot that the
diagnosis and `dissectors.edits` share cannot hide in it.
"""
