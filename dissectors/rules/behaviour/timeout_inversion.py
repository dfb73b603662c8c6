"""S039: a client that times out before the server has had the time that it allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ConnectionEnded, DeadlinePassed
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import allowed_ms
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.state import ConnectionState

_MS = 1_000_000
_MIN_WAIT_MS = 1000
_THRESHOLD = 3
_TOLERANCE = 0.05
_MAX_CLIENTS = 10_000

#: A client that gives up on one request keeps its other connections, or opens another within this time (ns).
_RETRY_TIMEOUT = 2_000_000_000


class _AbandonedWaits(BoundedDict[tuple[str, str | None, str], deque[float]]):
    """The waiting times (ms) of the last abandoned requests, per client (host and client id) and API."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@dataclass(frozen=True, slots=True)
class _AbandonedRequest:
    """A request whose connection the client closed, with times in ms, and the client's connections still open then."""

    api: str
    waited: float
    allowed: int
    other_connection_ids: frozenset[str]


class _LastCloses(BoundedDict[tuple[str, str | None], int]):
    """When each client (host and client id) last closed a connection (ns)."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "S039",
    severity=Severity.WARNING,
    events=(ConnectionEnded, DeadlinePassed),
    needs=(ConnectionsByClient, RebalanceTimeouts),
    since="0.1",
    blame="client",
)
def timeout_inversion(event: ConnectionEnded | DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client waits for a response at least as long as it allows the server to take.

    ## Why it matters
    A broker may hold a Fetch for max_wait_ms and a JoinGroup until the rebalance timeout. A client that closes the
    connection earlier retries elsewhere, forever; a group restarts its rebalance each time.

    ## Usual cause
    The client's socket or request timeout is shorter than fetch.max.wait.ms, or than the rebalance timeout for
    JoinGroup. Three closes after the same time (within 5 %, at least a second) count as a timeout, if the client
    continues on its other connections or opens another within 2 s. A client that shuts down closes all of its
    connections.

    ## Example
    ```story
    > Fetch v11 {"max_wait_ms": 60000}
    +10s
    close by=client how=fin
    open 2 client=10.0.0.101:50001
    2> Fetch v11 {"max_wait_ms": 60000}
    +10s
    2 close by=client how=fin
    open 3 client=10.0.0.101:50002
    3> Fetch v11 {"max_wait_ms": 60000}
    +10s
    3 close by=client how=fin
    open 4 client=10.0.0.101:50003
    4> Fetch v11 {"max_wait_ms": 60000}
    +3s
    4< {}
    ```

    ## Look-alikes
    ```story
    > Fetch v11 {"max_wait_ms": 60000}
    +10s
    close by=client how=fin
    open 2 client=10.0.0.101:50001
    2> Fetch v11 {"max_wait_ms": 60000}
    +25s
    2 close by=client how=fin
    open 3 client=10.0.0.101:50002
    3> Fetch v11 {"max_wait_ms": 60000}
    +5s
    3 close by=client how=fin
    open 4 client=10.0.0.101:50003
    4> Fetch v11 {"max_wait_ms": 60000}
    +3s
    4< {}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/31423
    https://github.com/apache/kafka/pull/5962
    """
    if isinstance(event, DeadlinePassed):
        yield from _check_abandoned(event.about, connection)
        return
    if event.by != "client":
        return
    client = host_of(connection.client), connection.client_id
    last_closes = connection.run.state(_LastCloses)
    closed_at, last_closes[client] = last_closes.get(client), event.at
    if not event.unanswered:
        return
    oldest_request = event.unanswered[0]
    message = oldest_request.message
    waited = (event.at - oldest_request.at) / _MS
    if waited < _MIN_WAIT_MS or not message.well_formed:
        return
    allowed = allowed_ms(message, connection.run.state(RebalanceTimeouts))
    if waited >= allowed:
        return
    other_connection_ids = frozenset(
        other_connection.connection_id
        for other_connection in connection.run.state(ConnectionsByClient).others(connection)
    )
    if not other_connection_ids and closed_at is not None and event.at - closed_at <= _RETRY_TIMEOUT:
        return  # the last of several connections that the client closes
    abandoned = _AbandonedRequest(message.api, waited, allowed, other_connection_ids)
    connection.set_deadline("S039", connection.connection_id, by=event.at + _RETRY_TIMEOUT, about=abandoned)


def _check_abandoned(abandoned: _AbandonedRequest, connection: ConnectionState) -> Iterator[Problem]:
    """Report a client that has again given up on a request, unless it has closed all its connections."""
    remaining = list(connection.run.state(ConnectionsByClient).others(connection))
    if not (
        any(other_connection.connection_id in abandoned.other_connection_ids for other_connection in remaining)
        if abandoned.other_connection_ids
        else remaining
    ):
        return  # the client was shut down
    api, waited, allowed = abandoned.api, abandoned.waited, abandoned.allowed
    key = (host_of(connection.client), connection.client_id, api)
    waits = connection.run.state(_AbandonedWaits).touch(key, lambda: deque(maxlen=_THRESHOLD))
    waits.append(waited)
    if len(waits) == _THRESHOLD and max(waits) - min(waits) <= _TOLERANCE * waited:
        yield Problem(
            f"client {connection.client_id!r} repeatedly gives up on {api} after {waited / 1000:.3g} s, "
            f"but allows the server up to {allowed / 1000:g} s",
            hint="make the client's request timeout longer than the time it allows the server",
            expected=f"at least {allowed / 1000:g} s",
            got=f"{waited / 1000:.3g} s",
            cause=api,
        )
