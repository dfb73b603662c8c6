"""TLS between the relay and its peers: streams, contexts, handshakes, sides, and why TLS fails."""
