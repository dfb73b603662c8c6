"""A journal in memory, from which a second cluster can start."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kproxy.broker.clock import Clock
from kproxy.broker.cluster import BrokerNode, Cluster
from kproxy.broker.journal import NullJournal, Value
from kproxy.broker.options import BrokerOptions


class InMemoryJournal(NullJournal):
    """Stores values as JSON, as a file would."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, str]] = {}

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        return iter([(key, json.loads(text)) for key, text in self.tables.get(table, {}).items()])

    def put(self, table: str, key: str, value: Value | None) -> None:
        if value is None:
            self.tables.get(table, {}).pop(key, None)
        else:
            self.tables.setdefault(table, {})[key] = json.dumps(value)


def make_cluster(clock: Clock, journal: InMemoryJournal | None = None, **configs: str) -> Cluster:
    """Return a cluster with the topic ``t`` of four partitions. An earlier cluster's journal restores its state."""
    options = {key.replace("_", "."): value for key, value in configs.items()}
    result = Cluster(BrokerOptions(topics={"t": 4}, configs=options), {}, clock, journal)
    result.nodes[1] = BrokerNode(1, {"PLAINTEXT": ("127.0.0.1", 9092)})
    return result
