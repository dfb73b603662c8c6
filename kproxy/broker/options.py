"""How a built-in broker is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """What a cluster is like; everything has a default.

    Attributes:
        brokers: How many brokers, each with a listener of its own. Their ids count from 1.
        release: The Kafka release whose APIs and versions it serves, e.g. ``2.8``; None for all that it has.
        data: Directory that topics, offsets and groups outlive a restart in; None keeps them in memory.
        fsync: With `data`, nothing is acknowledged before the disk has it.
        retention_bytes: Of record data in sum; the oldest batches go first.
        topics: Made at the start: name -> number of partitions.
        configs: Of the brokers, as in Kafka's server.properties: ``auto.create.topics.enable`` -> ``false``.
    """

    brokers: int = 1
    release: str | None = None
    data: Path | None = None
    fsync: bool = False
    retention_bytes: int = 1 << 30
    topics: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
