"""OwnCertificate: checks one of kproxy's own certificates like a peer that trusts its CA.

Go and Java send the same alert whatever the reason for rejecting a certificate. This check finds flaws of the
certificate itself.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dissectors.connections.tls_failures import TlsReason

#: X509_V_ERR_*, see OpenSSL's x509_vfy.h.
_BY_VERIFY_CODE = {
    9: TlsReason.NOT_YET_VALID,
    10: TlsReason.EXPIRED,
    **dict.fromkeys((62, 63, 64), TlsReason.NAME_MISMATCH),
}


class Flaw(NamedTuple):
    """What is wrong with a certificate; `detail` is OpenSSL's message."""

    reason: TlsReason
    detail: str


class OwnCertificate:
    """A certificate with its key. Creating it blocks, as it reads files that `kproxy.proxy.tls.contexts` has checked.

    Args:
        certificate: A PEM file.
        key: A PEM file.
        for_clients: Whether kproxy presents the certificate to its clients, not to brokers.
    """

    def __init__(self, certificate: Path, key: Path, *, for_clients: bool) -> None:
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client.check_hostname = False
        self._client.verify_mode = ssl.CERT_NONE
        for context in (self._server, self._client):
            context.load_cert_chain(certificate, key)
            context.load_verify_locations(certificate)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # no CA is needed
        (self._client if for_clients else self._server).verify_mode = ssl.CERT_REQUIRED

    def flaw(self, names: Sequence[str] = ()) -> Flaw | None:
        """Return why a peer that trusts the CA would reject the certificate, or None if it would not.

        Args:
            names: Host names and addresses, one of which the certificate must cover; if there are none, names are not
                checked.
        """
        flaws = [self._find_flaw(name) for name in (names or (None,))]
        return None if None in flaws else flaws[0]

    def _find_flaw(self, name: str | None) -> Flaw | None:
        """Do a handshake in memory, with the certificate on both ends; return the flaw that it reveals."""
        self._client.check_hostname = name is not None
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            client = self._client.wrap_bio(to_client, to_server, server_hostname=name)
        except (ValueError, TypeError) as error:
            return Flaw(TlsReason.NAME_MISMATCH, f"certificate is not valid for {name!r}: {error}")
        server = self._server.wrap_bio(to_server, to_client, server_side=True)
        try:
            for side in (client, server, client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLCertVerificationError as error:
            return Flaw(_BY_VERIFY_CODE.get(error.verify_code, TlsReason.BAD_CERTIFICATE), error.verify_message)
        except ssl.SSLError:
            return None  # this says nothing about the certificate
        return None
