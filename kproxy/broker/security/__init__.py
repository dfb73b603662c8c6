"""Authentication and authorization: TLS, SASL, users, delegation tokens, ACLs."""
