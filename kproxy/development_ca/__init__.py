"""A certificate authority (CA) for development: certificates for ``--tls-cert``, and instructions for clients."""
