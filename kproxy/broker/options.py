"""How a built-in broker is set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

Addresses: TypeAlias = Sequence[tuple[str, int]]

#: Of record data, where nobody says how much.
RETENTION_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What a cluster is like; everything has a default.

    Attributes:
        brokers: How many brokers, each with listeners of its own. Their ids count from ``node.id`` in `configs`, or 1.
        release: The Kafka release whose APIs and versions it serves, e.g. ``2.8``; None for all that it has.
        data: Directory that topics, offsets and groups outlive a restart in; None keeps them in memory.
        fsync: With `data`, nothing is acknowledged before the disk has it.
        retention_bytes: Of record data in sum; the oldest batches go first.
        quirks: What it does wrong, in the notation of docs/quirks.md.
        listeners: Names of the listeners that each broker has; without any it has one. A name is a security protocol
            (``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT``, ``SASL_SSL``), or ``listener.security.protocol.map`` in
            `configs` says which one it stands for.
        advertised: ``(host, port)`` that clients are told for each broker, by listener, if not where it listens; of
            the only listener without its name.
        tls_certificate: PEM file with the listeners' certificate and those above it; None is no TLS.
        tls_key: PEM file with its key, if that is not in the same file.
        tls_client_ca: PEM file with who has signed the certificates of clients, which have to have one then.
        sasl: Mechanisms to log in with: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``OAUTHBEARER``.
        users: Passwords by name, for PLAIN and SCRAM.
        acls: ACLs are enforced; else nobody is asked who he is.
        super_users: Who may do everything, e.g. ``User:admin``.
        topics: Made at the start: name -> number of partitions.
        configs: Of the brokers, as in Kafka's server.properties: ``auto.create.topics.enable`` -> ``false``.
        auto_create_delay_ms: How long after a client has asked about a topic it is created, as Kafka does it in the
            background; 0 is at once, so that the client's next request finds it.
    """

    brokers: int = 1
    release: str | None = None
    data: Path | None = None
    fsync: bool = False
    retention_bytes: int = RETENTION_BYTES
    quirks: Sequence[str] = ()
    listeners: Sequence[str] = ()
    advertised: Addresses | Mapping[str, Addresses] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    sasl: Sequence[str] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    acls: bool = False
    super_users: Sequence[str] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    auto_create_delay_ms: float = 40

    @property
    def first_id(self) -> int:
        """The id of the first broker."""
        given = self.configs.get("node.id", self.configs.get("broker.id", "1"))
        return int(given) if given.isdecimal() and int(given) < 1 << 31 else 1
