"""A conformance test for whatever claims to speak Kafka's protocol: checks with stable ids, run by `kproxy probe`."""
