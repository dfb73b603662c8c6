"""The reasons why TLS between a relay and one of its peers fails, as values and in words."""

from __future__ import annotations

from enum import StrEnum


class TlsReason(StrEnum):
    """What went wrong. If the peer gave up, this is known from its alert."""

    UNKNOWN_CA = "unknown_ca"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    REVOKED = "revoked"
    NAME_MISMATCH = "name_mismatch"
    BAD_CERTIFICATE = "bad_certificate"  # for another reason, or for a reason that was not given
    CERTIFICATE_REQUIRED = "certificate_required"
    PROTOCOL_VERSION = "protocol_version"
    NO_SHARED_CIPHER = "no_shared_cipher"
    UNKNOWN_NAME = "unknown_name"
    PLAINTEXT = "plaintext"
    CLOSED = "closed"
    TIMEOUT = "timeout"
    OTHER = "other"


_PROXY_REASONS = {
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
_PEER_REASONS = {
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


def describe(reason: TlsReason, by: str, detail: str = "") -> str:
    """Return a description of a failure, worded to follow the name of the peer.

    Args:
        reason: What went wrong.
        by: Who gave up: ``proxy``, or the peer (``client``, ``server``).
        detail: The message of the TLS library, for reasons with no description or only a vague one.
    """
    text = (_PROXY_REASONS if by == "proxy" else _PEER_REASONS).get(reason)
    if text and detail and reason in (TlsReason.NAME_MISMATCH, TlsReason.BAD_CERTIFICATE):
        return f"{text} ({detail.rstrip('.')})"
    return text or (f"TLS error: {detail}" if detail else "TLS error")
