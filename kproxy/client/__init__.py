"""A small Kafka client that sends exactly the requests it is given, for `kproxy send` and everything built on it."""
