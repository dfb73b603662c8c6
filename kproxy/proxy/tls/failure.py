"""TlsError: why TLS with a peer failed, derived from the errors of OpenSSL and the system."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from dissectors.connections.tls_failures import TlsReason, describe
from kproxy.proxy.tls.own_certificate import OwnCertificate

#: X509_V_ERR_*, see OpenSSL's x509_vfy.h.
_BY_VERIFY_CODE: Final = {
    **dict.fromkeys((2, 18, 19, 20, 21, 24, 27), TlsReason.UNKNOWN_CA),
    9: TlsReason.NOT_YET_VALID,
    10: TlsReason.EXPIRED,
    23: TlsReason.REVOKED,
    **dict.fromkeys((62, 63, 64), TlsReason.NAME_MISMATCH),
}
#: Keys end OpenSSL's names for the peer's alerts: ``TLSV1_ALERT_UNKNOWN_CA``, ``SSLV3_ALERT_BAD_CERTIFICATE``.
_BY_ALERT: Final = {
    "UNKNOWN_CA": TlsReason.UNKNOWN_CA,
    "CERTIFICATE_EXPIRED": TlsReason.EXPIRED,
    "CERTIFICATE_REVOKED": TlsReason.REVOKED,
    "CERTIFICATE_REQUIRED": TlsReason.CERTIFICATE_REQUIRED,
    "NO_CERTIFICATE": TlsReason.CERTIFICATE_REQUIRED,
    "BAD_CERTIFICATE": TlsReason.BAD_CERTIFICATE,
    "CERTIFICATE_UNKNOWN": TlsReason.BAD_CERTIFICATE,
    "UNSUPPORTED_CERTIFICATE": TlsReason.BAD_CERTIFICATE,
    "PROTOCOL_VERSION": TlsReason.PROTOCOL_VERSION,
    "HANDSHAKE_FAILURE": TlsReason.NO_SHARED_CIPHER,
    "INSUFFICIENT_SECURITY": TlsReason.NO_SHARED_CIPHER,
    "UNRECOGNIZED_NAME": TlsReason.UNKNOWN_NAME,
}
_BY_REASON: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": TlsReason.CERTIFICATE_REQUIRED,
    "NO_SHARED_CIPHER": TlsReason.NO_SHARED_CIPHER,
    "WRONG_CIPHER_RETURNED": TlsReason.NO_SHARED_CIPHER,
    "UNKNOWN_CIPHER_RETURNED": TlsReason.NO_SHARED_CIPHER,
    "UNSUPPORTED_PROTOCOL": TlsReason.PROTOCOL_VERSION,
    "WRONG_SSL_VERSION": TlsReason.PROTOCOL_VERSION,
    "VERSION_TOO_LOW": TlsReason.PROTOCOL_VERSION,
    "NO_PROTOCOLS_AVAILABLE": TlsReason.PROTOCOL_VERSION,
    "HTTP_REQUEST": TlsReason.PLAINTEXT,
    "HTTPS_PROXY_REQUEST": TlsReason.PLAINTEXT,
}


class TlsError(OSError):
    """TLS with a peer failed.

    Attributes:
        reason: What went wrong.
        by_peer: Whether the peer gave up, not kproxy.
        detail: OpenSSL's message, without its source file.
        silent: Whether the peer sent nothing, like a health check that only connects.
    """

    def __init__(self, reason: TlsReason, *, by_peer: bool = False, detail: str = "", silent: bool = False) -> None:
        super().__init__(f"TLS failed: {describe(reason, 'peer' if by_peer else 'proxy', detail)}")
        self.reason = reason
        self.by_peer = by_peer
        self.detail = detail
        self.silent = silent


def tls_error(
    error: ssl.SSLError,
    *,
    anonymous: bool = False,
    own_certificate: OwnCertificate | None = None,
    names: Sequence[str] = (),
) -> TlsError:
    """Translate an error of OpenSSL.

    Args:
        error: The error, raised during the handshake or later.
        anonymous: Whether this proxy has sent no certificate.
        own_certificate: The certificate that this proxy has sent. If the peer's alert does not say why the peer
            rejected it, a flaw of the certificate is taken as the reason.
        names: The names by which the peer, if it is a client, may know this proxy.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = error.verify_message
        return TlsError(_BY_VERIFY_CODE.get(error.verify_code, TlsReason.BAD_CERTIFICATE), detail=detail)
    name = error.reason or ""
    detail = name.replace("_", " ").lower() or "unknown"
    if "ALERT" in name or name.endswith("UNRECOGNIZED_NAME"):
        alert = next((reason for suffix, reason in _BY_ALERT.items() if name.endswith(suffix)), TlsReason.OTHER)
        if anonymous and alert is TlsReason.BAD_CERTIFICATE:  # Java's alert if there is no certificate
            alert = TlsReason.CERTIFICATE_REQUIRED
        if own_certificate is not None and alert is TlsReason.BAD_CERTIFICATE and (flaw := own_certificate.flaw(names)):
            return TlsError(flaw.reason, by_peer=True, detail=flaw.detail)
        return TlsError(alert, by_peer=True, detail=detail)
    return TlsError(_BY_REASON.get(name, TlsReason.OTHER), detail=detail)
