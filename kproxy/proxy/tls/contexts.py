"""Makes TLS contexts from the user's files. Each error message is one sentence."""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kproxy.proxy.tls.own_certificate import OwnCertificate
from kproxy.proxy.tls.stream import keep_requested_name


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """The TLS of a listener, both with clients and with its upstream; None means plaintext.

    `upstream_name` is sent as SNI and expected in the upstream's certificate; None means the upstream's host name.
    """

    client: ssl.SSLContext | None = None
    upstream: ssl.SSLContext | None = None
    upstream_name: str | None = None


#: Python's own default. Debian leaves the choice to OpenSSL, whose errors then do not name the version.
OLDEST_VERSION: Final = ssl.TLSVersion.TLSv1_2

#: No TLS on either side.
PLAINTEXT: Final = TlsPolicy()


class OwnContext(ssl.SSLContext):
    """A context that knows the certificate it sends to peers; None if it sends none."""

    own: OwnCertificate | None = None


class TlsFileError(ValueError):
    """A file cannot be used. The message is one sentence that includes the remedy."""


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Make a context for listeners: TLS 1.2 and 1.3 with this certificate (and its chain). Blocks: it reads files.

    Args:
        certificate: A PEM file.
        key: A PEM file without a password.
        client_ca: If given, clients need a certificate that one of these CAs (PEM) has signed.

    Raises:
        TlsFileError: A file cannot be read or has the wrong content, or certificate and key do not match.
    """
    context = OwnContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = OLDEST_VERSION
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_certificate(context, "--tls-cert", certificate, "--tls-key", key)
    if client_ca is not None:
        _load_ca(context, "--tls-client-ca", client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    context.own = OwnCertificate(certificate, key, for_clients=True)
    keep_requested_name(context)
    return context


def client_context(
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    verify: bool = True,
    prefix: str = "--upstream-",
) -> ssl.SSLContext:
    """Make a context for connections to brokers: TLS 1.2 and 1.3. Blocks: it reads files.

    Args:
        ca: The CAs (PEM) to trust instead of those of the system.
        certificate: The certificate (PEM) for brokers that require one.
        key: The key of that certificate (PEM, without a password).
        verify: Whether to accept only certificates from a trusted CA that have the name of the upstream.
        prefix: The prefix of the options that name the files, for error messages.

    Raises:
        TlsFileError: A file cannot be read or has the wrong content, or certificate and key do not match.
    """
    context = OwnContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = OLDEST_VERSION
    context.options |= ssl.OP_NO_RENEGOTIATION
    # As in Java's truststores, a certificate that is itself trusted needs no trusted issuer.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if ca is not None:
        _load_ca(context, f"{prefix}ca", ca)
    elif verify:
        context.load_default_certs()
    if certificate is not None and key is not None:
        _load_certificate(context, f"{prefix}cert", certificate, f"{prefix}key", key)
        context.own = OwnCertificate(certificate, key, for_clients=False)
    return context


def log_keys(contexts: list[ssl.SSLContext], path: Path) -> None:
    """Append the secrets of all connections to a file that only its owner can read, in NSS format.

    Raises:
        TlsFileError: The file cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        for context in contexts:
            context.keylog_filename = str(path)
    except OSError as error:
        raise TlsFileError(f"--tls-key-log {path}: {error.strerror}; choose another file") from None


class _EncryptedKeyError(Exception):
    """OpenSSL asked for the password of a key."""


def _load_certificate(
    context: ssl.SSLContext, certificate_option: str, certificate: Path, key_option: str, key: Path
) -> None:
    def password() -> str:
        raise _EncryptedKeyError

    _check_pem(certificate_option, certificate, b"CERTIFICATE-----", "certificate")
    _check_pem(key_option, key, b"PRIVATE KEY-----", "private key")
    try:
        context.load_cert_chain(certificate, key, password)
    except _EncryptedKeyError:
        raise TlsFileError(
            f"{key_option} {key} is protected by a password: remove it, e.g. with openssl pkey -in {key} -out NEW"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsFileError(f"{key_option} {key} is not the key of {certificate_option} {certificate}") from None
        raise TlsFileError(
            f"{certificate_option} {certificate}, {key_option} {key}: {_error_text(error)}; use PEM files that OpenSSL "
            "reads"
        ) from None


def _load_ca(context: ssl.SSLContext, option: str, path: Path) -> None:
    _check_pem(option, path, b"CERTIFICATE-----", "certificate")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsFileError(f"{option} {path}: {_error_text(error)}; use a PEM file that OpenSSL reads") from None


def _check_pem(option: str, path: Path, marker: bytes, kind: str) -> None:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TlsFileError(f"{option} {path}: {error.strerror}; choose another file") from None
    if marker not in content:
        raise TlsFileError(f"{option} {path} has no PEM {kind}: use a file with a -----BEGIN ...{marker.decode()} line")


def _error_text(error: ssl.SSLError) -> str:
    return (error.reason or "not readable").replace("_", " ").lower()
