"""The cluster: the state that its brokers share. All brokers are in this process."""

# Rule 1: all brokers share this state and one event loop. A handler changes it between two awaits, so no lock is needed
# and no client sees half a change.
#
# Rule 2: parts are created on first use, read the journal then, and never store each other: they call `cluster.part`.
#
# Rule 3: a change is in the journal before its response is sent.

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dissectors.schemas.lines import line, lines
from kproxy.broker.clock import Clock
from kproxy.broker.journal import Journal, NullJournal
from kproxy.broker.options import BrokerOptions
from kproxy.broker.registry import BrokerApi
from kproxy.broker.storage_health import StorageHealth

T = TypeVar("T")


@dataclass(slots=True)
class BrokerNode:
    """A broker: its id, and the host and port advertised for each listener.

    A broker that is not `up` accepts no connections.
    """

    id: int
    addresses: dict[str, tuple[str, int]]
    rack: str | None = None
    up: bool = True


class Cluster:
    """The nodes, and the parts that hold all other state. `line` is the release line that the cluster emulates.

    A part (topics, groups, ACLs, ...) is a class whose only argument is the cluster; it is created on first use:
    ``cluster.part(Topics)``. It reads its stored state from `journal` when it is created, and writes changes there.
    """

    def __init__(
        self,
        options: BrokerOptions,
        served: Mapping[int, BrokerApi],
        clock: Clock | None = None,
        journal: Journal | None = None,
        storage: StorageHealth | None = None,
    ) -> None:
        self.options = options
        self.line = line(options.release or lines()[-1])
        self.served = served
        self.clock = clock or Clock()
        self.journal: Journal = journal or NullJournal()
        self.storage = storage or StorageHealth()
        self.nodes: dict[int, BrokerNode] = {}
        self._parts: dict[type[Any], Any] = {}
        self.id = self._load_or_create("cluster", new_uuid)

    @property
    def controller(self) -> BrokerNode:
        """The node that is reported as the controller: the first one that is up."""
        return min((node for node in self.nodes.values() if node.up), key=lambda node: node.id)

    def part(self, kind: Callable[[Cluster], T]) -> T:
        """Return the cluster's only instance of a part, e.g. of `Topics`."""
        part = self._parts.get(kind)  # type: ignore[call-overload]
        if part is None:
            part = self._parts[kind] = kind(self)  # type: ignore[index]
        return part  # type: ignore[no-any-return]

    def _load_or_create(self, name: str, create_value: Callable[[], str]) -> str:
        stored = dict(self.journal.entries("cluster")).get(name)
        if stored is None:
            stored = {"value": create_value()}
            self.journal.put("cluster", name, stored)
        return str(stored["value"])


def new_uuid() -> str:
    """Return a random UUID as Kafka prints it; like Kafka's, it never starts with a hyphen."""
    while (uuid_text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return uuid_text
