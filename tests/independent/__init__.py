"""Break frames without kproxy's code: Kafka's definitions, a reader, a writer, and the ways to break a frame.

Only the modules that diagnose the frames and the code that reads captures import the packages under test, so a blind
spot that the diagnosis and `dissectors.edits` share cannot hide here.
"""
