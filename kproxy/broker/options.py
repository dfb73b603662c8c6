"""Options of the built-in broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

Addresses: TypeAlias = Sequence[tuple[str, int]]

#: Default limit on record data, in bytes.
RETENTION_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of a cluster; everything has a default.

    Attributes:
        brokers: Number of brokers, each with its own listeners. Ids count from ``node.id`` in `configs`, or 1.
        release: The Kafka release to emulate (APIs and versions), e.g. ``2.8``; None for all supported versions.
        data: Directory for topics, offsets and groups that survive a restart; None keeps them in memory.
        fsync: With `data`, acknowledge only after the data is on disk.
        retention_bytes: Limit on all record data together; the oldest batches are deleted first.
        quirks: Broker bugs to reproduce, in the notation of docs/quirks.md.
        listeners: Names of each broker's listeners; a single one by default. A name is a security protocol
            (``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT``, ``SASL_SSL``), or ``listener.security.protocol.map`` in
            `configs` maps it to one.
        advertised: ``(host, port)`` to advertise for each broker, by listener, if it differs from where it listens; a
            single listener needs no name.
        tls_certificate: PEM file with the listeners' certificate chain; None disables TLS.
        tls_key: PEM file with its key, if that is not in the same file.
        tls_client_ca: PEM file with the CA of client certificates, which are then required.
        sasl: Login mechanisms: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``OAUTHBEARER``.
        users: Passwords by name, for PLAIN and SCRAM.
        acls: Whether ACLs are enforced.
        super_users: Principals that may do everything, e.g. ``User:admin``.
        topics: Topics to create at startup: name -> number of partitions.
        configs: Broker configs, as in Kafka's server.properties: ``auto.create.topics.enable`` -> ``false``.
        auto_create_delay_ms: Delay before a topic that a client requested is created; Kafka creates it in the
            background. With 0 the client's next request finds it.
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
        node_id = self.configs.get("node.id", self.configs.get("broker.id", "1"))
        return int(node_id) if node_id.isdecimal() and int(node_id) < 1 << 31 else 1


def with_settings(options: BrokerOptions, settings: Mapping[str, Any]) -> BrokerOptions:
    """Return the options with some of them replaced.

    Raises:
        ValueError: A setting is unknown, or `topics` has no numbers of partitions.
    """
    option_names = [option.name for option in fields(BrokerOptions)]
    for name in settings:
        if name not in option_names:
            matches = get_close_matches(name, [*option_names, "ports"], n=1)
            hint = f"did you mean {matches[0]}?" if matches else f"settings: {', '.join(option_names)}"
            raise ValueError(f"unknown setting {name!r} of a broker; {hint}")
    replaced = replace(options, **settings)
    if not isinstance(replaced.topics, Mapping):
        raise ValueError('topics needs the number of partitions of each topic, such as {"orders": 6}')  # noqa: TRY004  # as for other wrong settings
    return replaced
