"""TLS between the relay and its peers: streams, contexts, handshakes, sides, and the reasons for failures."""
