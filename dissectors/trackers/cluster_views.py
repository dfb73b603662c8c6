"""ClusterViews: what servers say about brokers, and what Metadata told each client about leader epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonicalize_host
from dissectors.connections.events import ResponseReceived
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.brokers import Endpoint, endpoints
from dissectors.trackers.coordinators import coordinator_results
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

_MAX_SERVERS = 1_000
_MAX_BROKERS = 1_000
_MAX_CLIENTS = 1_000
_MAX_PARTITIONS = 2_000

#: Responses are compared if they are at most this far apart (ns), because a cluster changes over time.
_MAX_AGE = 60 * 1_000_000_000

#: How long (ns) a server counts as contradicting itself after its latest contradiction.
_CONTRADICTION_LASTS = 60 * 1_000_000_000

#: A coordinator that Metadata does not name at all may have just stopped or started: it is a contradiction only if this
#: many responses in a row agree on that.
_MIN_MISSING = 3

Address = tuple[str, int]


class SeenEpoch(NamedTuple):
    """A leader epoch in Metadata, and when the client got it."""

    epoch: int
    at: int


class CoordinatorConflict(NamedTuple):
    """A disagreement between FindCoordinator and Metadata from one server about a broker.

    `subject` is what the coordinator is for; `broker` is the broker in Metadata with the same node id or, failing that,
    with the same address; None if Metadata has neither.
    """

    subject: str
    coordinator: Endpoint
    broker: Endpoint | None


@dataclass(slots=True)
class _ServerView:
    """The brokers in the latest Metadata of a server, and the latest coordinator.

    `missing` counts the consecutive responses whose coordinator is not among these brokers.
    """

    brokers: dict[int, Endpoint] = field(default_factory=dict)
    metadata_at: int = 0
    coordinator: tuple[str, Endpoint] | None = None
    coordinator_at: int = 0
    missing: int = 0
    conflict_at: int = 0


@tracker(events=(ResponseReceived,), apis=("Metadata", "FindCoordinator"))
class ClusterViews:
    """What servers report about brokers, and what clients know about leader epochs.

    `conflict` is the conflict in the latest response, None if it has none.
    """

    def __init__(self) -> None:
        self.conflict: CoordinatorConflict | None = None
        self._servers: BoundedDict[str, _ServerView] = BoundedDict(_MAX_SERVERS)
        self._epochs: BoundedDict[tuple[str, str | None], BoundedDict[TopicPartition, SeenEpoch]] = BoundedDict(
            _MAX_CLIENTS
        )

    def contradicts_itself(self, server: str, at: int) -> bool:
        """Whether a server's FindCoordinator and Metadata have recently contradicted each other."""
        server_view = self._servers.get(server)
        return (
            server_view is not None
            and bool(server_view.conflict_at)
            and at - server_view.conflict_at < _CONTRADICTION_LASTS
        )

    def node_id(self, server: str, address: str) -> int | None:
        """Return the node id of an address in the latest Metadata of a server; None if there are several or none."""
        server_view = self._servers.get(server)
        ids = (
            [broker.node_id for broker in server_view.brokers.values() if broker.address == address]
            if server_view
            else []
        )
        return ids[0] if len(ids) == 1 else None

    def leader_epoch(self, connection: ConnectionState, topic_partition: TopicPartition) -> SeenEpoch | None:
        """Return the leader epoch of a partition in the latest Metadata that a connection's client got."""
        epochs = self._epochs.get(client_key(connection))
        return epochs.get(topic_partition) if epochs else None

    def observe(self, event: ResponseReceived, connection: ConnectionState) -> None:
        """Compare a response with earlier ones."""
        self.conflict = None
        message = event.message
        if message is None or message.diagnosis is not None or event.request is None:
            return
        server = self._servers.touch(connection.server, _ServerView)
        if message.api == "Metadata":
            brokers = {endpoint.node_id: endpoint for endpoint in endpoints(message)}
            if brokers and len(brokers) <= _MAX_BROKERS:
                server.brokers, server.metadata_at = brokers, event.at
            self._learn_epochs(message, event.at, connection)
            if server.coordinator is not None and event.at - server.coordinator_at < _MAX_AGE:
                self._compare(server, *server.coordinator)
        else:
            for subject, coordinator in _coordinators_in(event, message):
                server.coordinator, server.coordinator_at = (subject, coordinator), event.at
                if event.at - server.metadata_at < _MAX_AGE:
                    self._compare(server, subject, coordinator)
        if self.conflict is not None:
            server.conflict_at = event.at

    def _compare(self, server: _ServerView, subject: str, coordinator: Endpoint) -> None:
        conflict = _find_conflict(server, subject, coordinator)
        if conflict is None:
            server.missing = 0
        elif conflict.broker is not None:
            self.conflict = conflict
        else:
            server.missing += 1
            if server.missing >= _MIN_MISSING:
                self.conflict = conflict

    def _learn_epochs(self, message: Message, at: int, connection: ConnectionState) -> None:
        """Store the leader epochs in a Metadata response."""
        epochs: BoundedDict[TopicPartition, SeenEpoch] | None = None
        remaining = _MAX_PARTITIONS
        for topic in message.body["topics"] or ():
            partitions = topic["partitions"] or ()
            remaining -= len(partitions)
            if remaining < 0:
                return
            name = topic.get("name") or topic.get("topic_id") or ""
            for partition in partitions:
                if (epoch := partition.get("leader_epoch", -1)) >= 0:
                    if epochs is None:
                        epochs = self._epochs.touch(client_key(connection), lambda: BoundedDict(_MAX_PARTITIONS))
                    epochs[name, partition["partition_index"]] = SeenEpoch(epoch, at)


def _coordinators_in(event: ResponseReceived, message: Message) -> Iterator[tuple[str, Endpoint]]:
    """Yield the subject of each coordinator in a response, and its endpoint."""
    subjects = [response.subject for response in coordinator_results(event)]
    for endpoint in endpoints(message):
        index = endpoint.path[1] if endpoint.path else 0
        if endpoint.node_id >= 0 and endpoint.host and isinstance(index, int) and index < len(subjects):
            yield subjects[index], endpoint


def _find_conflict(server: _ServerView, subject: str, coordinator: Endpoint) -> CoordinatorConflict | None:
    if not server.brokers:
        return None
    broker_with_id, address = server.brokers.get(coordinator.node_id), _address(coordinator)
    if broker_with_id is not None:
        return (
            None if _address(broker_with_id) == address else CoordinatorConflict(subject, coordinator, broker_with_id)
        )
    broker_with_address = next((broker for broker in server.brokers.values() if _address(broker) == address), None)
    return CoordinatorConflict(subject, coordinator, broker_with_address)


def _address(endpoint: Endpoint) -> Address:
    return canonicalize_host(endpoint.host), endpoint.port


def broker_text(endpoint: Endpoint) -> str:
    """Describe a broker: ``node 1 at 10.0.0.1:9092``."""
    return f"node {endpoint.node_id} at {endpoint.address}"
