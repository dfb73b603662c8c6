"""The security of a listener: TLS, client certificates, SASL."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kproxy.broker.request import ClientSession, ConnectingClient
from kproxy.broker.security.login import MECHANISMS, Login
from kproxy.broker.security.subject import subject

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.options import BrokerOptions

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MAP: Final = "listener.security.protocol.map"


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """A listener of each broker; `protocol` is one of Kafka's security protocols."""

    name: str
    protocol: str

    @property
    def tls(self) -> bool:
        """Whether the listener uses TLS."""
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether the listener uses SASL."""
        return self.protocol.startswith("SASL")


def listeners_of(options: BrokerOptions) -> tuple[BrokerListener, ...]:
    """Return the listeners of each broker; by default one with the protocol that fits the options.

    Raises:
        ValueError: They do not fit the options. The message can be shown to the user as it is.
    """
    if not options.listeners:
        protocol = ("SASL_" if options.sasl else "") + ("SSL" if options.tls_certificate else "PLAINTEXT")
        return (BrokerListener(protocol, protocol),)
    protocols = _parse_protocol_map(options.configs.get(_MAP, ""))
    listeners = {}
    for name in options.listeners:
        if name in listeners:
            raise ValueError(f"two listeners are called {name}: give each its own name")
        if name not in protocols:
            raise ValueError(
                f"listener {name} has no security protocol: name it {', '.join(PROTOCOLS)}, "
                f"or map it with {_MAP}={name}:PLAINTEXT"
            )
        listeners[name] = BrokerListener(name, protocols[name])
    _check_requirements(listeners.values(), options)
    return tuple(listeners.values())


def tls_context(options: BrokerOptions) -> ssl.SSLContext | None:
    """Return the TLS context of a cluster's listeners; None without TLS.

    Raises:
        ValueError: A file is unreadable or invalid, or key and certificate do not match. The message names the file.
    """
    if options.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = (
        ssl.TLSVersion.TLSv1_2
    )  # as in Kafka's ssl.enabled.protocols; not the default of every Python
    files = [file for file in (options.tls_certificate, options.tls_key, options.tls_client_ca) if file is not None]
    try:
        context.load_cert_chain(options.tls_certificate, options.tls_key)
        if options.tls_client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(options.tls_client_ca)
    except OSError as error:  # the error does not name the file
        raise ValueError(f"TLS with {', '.join(map(str, files))}: {error.strerror}") from None
    return context


def check_mechanisms(options: BrokerOptions) -> None:
    """Raise `ValueError` if a SASL mechanism is unknown."""
    if unknown := [mechanism for mechanism in options.sasl if mechanism not in MECHANISMS]:
        raise ValueError(f"unknown SASL mechanism {unknown[0]}: use one of {', '.join(MECHANISMS)}")


def new_session(cluster: Cluster, listener: BrokerListener, client: ConnectingClient) -> ClientSession:
    """Create the session of a new connection to a listener of the cluster."""
    session = ClientSession(f"/{_format_like_java(client.host)}", listener.name)
    if listener.sasl:
        session.authenticated = False
        session.login = Login(cluster, session)
    elif client.certificate:
        session.principal = f"User:{subject(client.certificate)}"
    return session


def _format_like_java(host: str) -> str:
    """Return an IP address as Kafka prints it: IPv6 without ``::``."""
    if ":" not in host:
        return host
    groups = ipaddress.IPv6Address(host.partition("%")[0]).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups)


def _parse_protocol_map(text: str) -> dict[str, str]:
    """Return protocols by listener name: those in e.g. ``INTERNAL:PLAINTEXT,EXTERNAL:SSL``, and Kafka's own names."""
    protocols = {protocol: protocol for protocol in PROTOCOLS}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, _, protocol = entry.partition(":")
        if protocol not in PROTOCOLS:
            raise ValueError(f"{_MAP}: {entry!r} has no valid security protocol; use one of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    return protocols


def _check_requirements(listeners: Collection[BrokerListener], options: BrokerOptions) -> None:
    """Raise `ValueError` if the listeners' requirements are not met, or security options would not be used."""
    tls, sasl = (
        [listener.name for listener in listeners if listener.tls],
        [listener.name for listener in listeners if listener.sasl],
    )
    if tls and options.tls_certificate is None:
        raise ValueError(f"listener {tls[0]} uses TLS but has no certificate: pass tls_certificate, or --tls-cert")
    if sasl and not options.sasl:
        raise ValueError(f"listener {sasl[0]} uses SASL but has no mechanism: pass sasl, or --sasl PLAIN")
    if options.tls_certificate is not None and not tls:
        raise ValueError("a certificate is set but no listener uses TLS: name one SSL or SASL_SSL")
    if options.sasl and not sasl:
        raise ValueError("a SASL mechanism is set but no listener uses it: name one SASL_PLAINTEXT or SASL_SSL")
