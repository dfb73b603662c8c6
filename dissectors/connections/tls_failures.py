"""Why TLS between a relay and one of its peers fails, as values and in words, and what to do about it."""

from __future__ import annotations

from enum import StrEnum


class TlsReason(StrEnum):
    """What went wrong. If the peer gave up, its alert says so, or what is wrong with kproxy's certificate."""

    UNKNOWN_CA = "unknown_ca"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    REVOKED = "revoked"
    NAME_MISMATCH = "name_mismatch"
    BAD_CERTIFICATE = "bad_certificate"  # for another reason, or none that was given
    CERTIFICATE_REQUIRED = "certificate_required"
    PROTOCOL_VERSION = "protocol_version"
    NO_SHARED_CIPHER = "no_shared_cipher"
    UNKNOWN_NAME = "unknown_name"
    PLAINTEXT = "plaintext"
    CLOSED = "closed"
    TIMEOUT = "timeout"
    OTHER = "other"


_OURS = {
    TlsReason.UNKNOWN_CA: "its certificate is signed by an unknown CA",
    TlsReason.EXPIRED: "its certificate has expired",
    TlsReason.NOT_YET_VALID: "its certificate is not valid yet",
    TlsReason.REVOKED: "its certificate is revoked",
    TlsReason.NAME_MISMATCH: "its certificate is not for this host name",
    TlsReason.BAD_CERTIFICATE: "its certificate is not acceptable",
    TlsReason.CERTIFICATE_REQUIRED: "it sent no client certificate",
    TlsReason.PROTOCOL_VERSION: "it supports no TLS version that kproxy accepts (1.2, 1.3)",
    TlsReason.NO_SHARED_CIPHER: "it supports no cipher suite that kproxy accepts",
    TlsReason.PLAINTEXT: "it speaks plaintext",
    TlsReason.TIMEOUT: "it did not complete the handshake in time",
}
_THEIRS = {
    TlsReason.UNKNOWN_CA: "it does not trust kproxy's certificate: unknown CA",
    TlsReason.EXPIRED: "it rejected kproxy's certificate: expired",
    TlsReason.NOT_YET_VALID: "it rejected kproxy's certificate: not valid yet",
    TlsReason.NAME_MISMATCH: "it rejected kproxy's certificate: not for this host name",
    TlsReason.REVOKED: "it rejected kproxy's certificate: revoked",
    TlsReason.BAD_CERTIFICATE: "it rejected kproxy's certificate",
    TlsReason.CERTIFICATE_REQUIRED: "it requires a client certificate",
    TlsReason.PROTOCOL_VERSION: "it supports no TLS version that kproxy offers",
    TlsReason.NO_SHARED_CIPHER: "it found no common cipher suite, or a certificate is missing",
    TlsReason.UNKNOWN_NAME: "it has no certificate for the requested name",
    TlsReason.CLOSED: "it closed the connection during the handshake",
}

_TRUST = "make the client trust the CA of --tls-cert; for a CA of kproxy's, kproxy ca export has the instructions"
_NO_TLS = "set security.protocol=SSL or SASL_SSL on the client, or use a listener of kproxy without --tls-cert"
_CLOCKS = "check the clocks of both machines"
_VERSION = "enable TLS 1.2 or 1.3 on the {}"
_CIPHER = "enable a cipher suite of TLS 1.2 or 1.3 on the {} that fits the key of {}"
#: By the side that TLS fails with, who gave up, and the reason.
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


def describe(reason: TlsReason, by: str, detail: str = "") -> str:
    """A failure in words that follow the name of the peer.

    Args:
        reason: What went wrong.
        by: Who gave up: ``proxy``, or the peer (``client``, ``server``).
        detail: What the TLS library says; for reasons that have no words of their own, or leave something open.
    """
    words = (_OURS if by == "proxy" else _THEIRS).get(reason)
    if words and detail and reason in (TlsReason.NAME_MISMATCH, TlsReason.BAD_CERTIFICATE):
        return f"{words} ({detail.rstrip('.')})"
    return words or (f"TLS error: {detail}" if detail else "TLS error")


def remedy(side: str, by: str, reason: TlsReason) -> str | None:
    """What to do about a failure, None if that depends on more than the reason.

    Args:
        side: The peer: ``client`` or ``server``.
        by: Who gave up: ``proxy``, or the peer.
        reason: What went wrong.
    """
    return _REMEDIES.get((side, by, reason))
