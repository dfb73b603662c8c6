"""What to do if TLS with a client or a broker fails: which flag of kproxy or setting of the peer to change."""

from __future__ import annotations

from dissectors.connections.tls_failures import TlsReason

_TRUST = "make the client trust the CA of --tls-cert; for a CA of kproxy's, kproxy ca export has the instructions"
_NO_TLS = "set security.protocol=SSL or SASL_SSL on the client, or use a listener of kproxy without --tls-cert"
_CLOCKS = "check the clocks of both machines"
_VERSION = "enable TLS 1.2 or 1.3 on the {}"
_CIPHER = "enable a cipher suite of TLS 1.2 or 1.3 on the {} that fits the key of {}"
#: Keys are the side with which TLS failed, who gave up, and the reason.
_REMEDIES: dict[tuple[str, str, TlsReason], str] = {
    ("client", "client", TlsReason.UNKNOWN_CA): _TRUST,
    ("client", "client", TlsReason.EXPIRED): "renew the certificate of --tls-cert, and check the client's clock",
    ("client", "client", TlsReason.NOT_YET_VALID): _CLOCKS,
    ("client", "client", TlsReason.REVOKED): "replace the certificate of --tls-cert",
    ("client", "client", TlsReason.NAME_MISMATCH): "pass a --tls-cert that has the name or address to which clients "
    "connect as a subject alternative name, and make clients trust its CA",
    ("client", "client", TlsReason.BAD_CERTIFICATE): "the certificate is valid now and for the host name, so the "
    "client probably does not trust its CA: " + _TRUST,
    ("client", "client", TlsReason.PROTOCOL_VERSION): _VERSION.format("client"),
    ("client", "client", TlsReason.NO_SHARED_CIPHER): _CIPHER.format("client", "--tls-cert (RSA or ECDSA)"),
    ("client", "client", TlsReason.CLOSED): "check the client's log: some clients close without an alert if they do "
    "not trust the certificate; " + _TRUST,
    ("client", "proxy", TlsReason.UNKNOWN_CA): "add the CA of the client's certificate to --tls-client-ca",
    ("client", "proxy", TlsReason.EXPIRED): "renew the client's certificate",
    ("client", "proxy", TlsReason.NOT_YET_VALID): _CLOCKS,
    ("client", "proxy", TlsReason.REVOKED): "replace the client's certificate",
    ("client", "proxy", TlsReason.BAD_CERTIFICATE): "use a client certificate that is meant for clients (extended key "
    "usage clientAuth)",
    ("client", "proxy", TlsReason.CERTIFICATE_REQUIRED): "give the client a certificate (a keystore), or omit "
    "--tls-client-ca",
    ("client", "proxy", TlsReason.PROTOCOL_VERSION): _VERSION.format("client"),
    ("client", "proxy", TlsReason.NO_SHARED_CIPHER): _CIPHER.format("client", "--tls-cert (RSA or ECDSA)"),
    ("client", "proxy", TlsReason.PLAINTEXT): _NO_TLS,
    ("client", "proxy", TlsReason.TIMEOUT): "check the client's load, and the network between it and kproxy",
    ("server", "proxy", TlsReason.UNKNOWN_CA): "pass the CA of the broker's certificate with --upstream-ca",
    ("server", "proxy", TlsReason.EXPIRED): "renew the broker's certificate",
    ("server", "proxy", TlsReason.NOT_YET_VALID): _CLOCKS,
    ("server", "proxy", TlsReason.REVOKED): "replace the broker's certificate",
    ("server", "proxy", TlsReason.NAME_MISMATCH): "use a host name that is in the broker's certificate for --upstream "
    "and advertised.listeners, or pass one with --upstream-sni",
    ("server", "proxy", TlsReason.BAD_CERTIFICATE): "use a broker certificate that is meant for servers (extended key "
    "usage serverAuth)",
    ("server", "proxy", TlsReason.PROTOCOL_VERSION): _VERSION.format("broker"),
    ("server", "proxy", TlsReason.NO_SHARED_CIPHER): _CIPHER.format("broker", "its certificate"),
    ("server", "proxy", TlsReason.PLAINTEXT): "omit --upstream-tls, or use the port of the broker's TLS listener",
    ("server", "proxy", TlsReason.TIMEOUT): "check that the port is the broker's TLS listener, and that the broker is "
    "not overloaded",
    ("server", "server", TlsReason.CLOSED): "check that the port is the broker's TLS listener: a plaintext listener "
    "closes when it gets a TLS handshake",
    ("server", "server", TlsReason.UNKNOWN_CA): "the broker's truststore needs the CA of --upstream-cert",
    ("server", "server", TlsReason.EXPIRED): "renew the certificate of --upstream-cert",
    ("server", "server", TlsReason.NOT_YET_VALID): _CLOCKS,
    ("server", "server", TlsReason.REVOKED): "replace the certificate of --upstream-cert",
    ("server", "server", TlsReason.BAD_CERTIFICATE): "the certificate of --upstream-cert has not expired, so its CA is "
    "probably not in the broker's truststore; the broker's log has the reason",
    ("server", "server", TlsReason.CERTIFICATE_REQUIRED): "pass --upstream-cert and --upstream-key",
    ("server", "server", TlsReason.NO_SHARED_CIPHER): "if the broker requires a client certificate, pass "
    "--upstream-cert and --upstream-key",
    ("server", "server", TlsReason.PROTOCOL_VERSION): _VERSION.format("broker"),
    ("server", "server", TlsReason.UNKNOWN_NAME): "pass a name that the broker knows with --upstream-sni",
}


def remedy(side: str, by: str, reason: TlsReason) -> str | None:
    """Return what to do about a failure, or None if that depends on more than the reason.

    Args:
        side: The peer: ``client`` or ``server``.
        by: Who gave up: ``proxy``, or the peer.
        reason: What went wrong.
    """
    return _REMEDIES.get((side, by, reason))
