"""A conformance test for anything that claims to speak Kafka's protocol: checks with stable ids for `kproxy probe`."""
