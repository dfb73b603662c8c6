"""A certificate authority for development: it makes certificates for ``--tls-cert``; clients are told to trust it."""
