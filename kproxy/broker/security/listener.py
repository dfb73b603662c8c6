"""What a listener asks of its clients before it answers them: TLS, certificates, a login."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from kproxy.broker.request import Session
from kproxy.broker.security.login import MECHANISMS, Login
from kproxy.broker.security.subject import subject

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.options import Options


def tls_context(options: Options) -> ssl.SSLContext | None:
    """What the listeners of a cluster speak TLS with; None where they do not.

    Raises:
        ValueError: A file cannot be read, is no certificate or key, or they do not belong together; a sentence.
    """
    if options.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    files = [each for each in (options.tls_certificate, options.tls_key, options.tls_client_ca) if each is not None]
    try:
        context.load_cert_chain(options.tls_certificate, options.tls_key)
        if options.tls_client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(options.tls_client_ca)
    except OSError as error:  # it does not say which
        raise ValueError(f"TLS with {', '.join(map(str, files))}: {error.strerror}") from None
    return context


def check_mechanisms(options: Options) -> None:
    """Raise `ValueError` unless all SASL mechanisms that are asked for are there."""
    if unknown := [each for each in options.sasl if each not in MECHANISMS]:
        raise ValueError(f"no SASL mechanism {unknown[0]}: there are {', '.join(MECHANISMS)}")


def new_session(cluster: Cluster, client_host: str, certificate: dict[str, Any] | None) -> Session:
    """What a connection begins with.

    Args:
        cluster: That it is to.
        client_host: As Kafka prints it: ``/127.0.0.1``.
        certificate: Of the client, as `ssl.SSLSocket.getpeercert` gives it.
    """
    session = Session(client_host)
    if cluster.options.sasl:
        session.authenticated = False
        session.login = Login(cluster, session)
    elif certificate:
        session.principal = f"User:{subject(certificate)}"
    return session
