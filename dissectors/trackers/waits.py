"""Why a request is still waiting: what its response may be waiting for, and what the broker did last."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from dissectors.connections.events import RequestReceived
from dissectors.trackers.allowed_waits import allowed_ms, duration
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.in_flight import InFlight, LastResponse
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.state import ConnectionState

_MS = 1_000_000

#: Another connection is also waiting if its oldest response is this late (ns).
LATE_AFTER = 1000 * _MS


class WaitKind(StrEnum):
    """What a late response is most likely waiting for."""

    PARTIAL = "partial response"  # its first bytes have arrived
    LOST = "lost response"  # the same broker answers the client's other connections
    SILENT = "silent broker"  # the broker answers none of the client's connections
    REBALANCE = "rebalance"  # for the other members of a group
    LONG_POLL = "long poll"  # for records
    THROTTLED = "throttled"  # for the end of a throttle time
    UNKNOWN = "unknown"


class Wait(NamedTuple):
    """Why a request is waiting: the kind of wait, and the evidence as human-readable clauses."""

    kind: WaitKind
    text: str


def explain_wait(
    request: RequestReceived, at: int, connection: ConnectionState, partial_response: tuple[int, int] = (0, 0)
) -> Wait:
    """Return why the oldest request of a connection is waiting at `at` (ns).

    `partial_response` is how many bytes of an incomplete response have arrived, and its total size (0 while unknown).
    """
    last_response = connection.state(InFlight).answered
    kind, clauses = _allowed_wait(request, last_response, connection)
    if partial_response[0]:
        kind = WaitKind.PARTIAL
        clauses.append(
            f"{partial_response[0]} bytes of a response{f' of {partial_response[1]}' if partial_response[1] else ''} "
            "have arrived"
        )
    if last_response is None:
        clauses.append("the broker has not answered on this connection yet")
    else:
        elapsed_text = duration(at - last_response.at)
        clauses.append(f"the last response here was {last_response.api} v{last_response.version}, {elapsed_text} ago")
    other_connections = _other_connections(at, connection)
    if other_connections.answered is not None and other_connections.answered > request.at:
        kind = WaitKind.LOST if kind is WaitKind.UNKNOWN else kind
        elapsed_text = duration(at - other_connections.answered)
        clauses.append(f"the broker answered another connection of this client {elapsed_text} ago, so it works")
    elif other_connections.waiting and not partial_response[0]:
        kind = WaitKind.SILENT if kind is WaitKind.UNKNOWN else kind
        subject = (
            f"{other_connections.waiting} other connections" if other_connections.waiting > 1 else "another connection"
        )
        verb = "wait" if other_connections.waiting > 1 else "waits"
        clauses.append(f"{subject} of this client {verb} for it too, so the broker or the network hangs")
    elif other_connections.elsewhere is not None and other_connections.elsewhere > request.at:
        clauses.append(f"another broker answered this client {duration(at - other_connections.elsewhere)} ago")
    return Wait(kind, "; ".join(clauses))


def _allowed_wait(
    request: RequestReceived, last_response: LastResponse | None, connection: ConnectionState
) -> tuple[WaitKind, list[str]]:
    """Return what the request itself allows the broker to wait for, and clauses that describe it."""
    message = request.message
    allowed_ns = allowed_ms(message, connection.run.state(RebalanceTimeouts)) * _MS
    if message.api in ("JoinGroup", "SyncGroup"):
        awaited_event = "the other members" if message.api == "JoinGroup" else "the assignment of the group's leader"
        clause = f"it may wait for {awaited_event}, but the rebalance timeout of {duration(allowed_ns)} has passed"
        return WaitKind.REBALANCE, [clause]
    if message.api in ("Fetch", "ShareFetch"):
        return WaitKind.LONG_POLL, [
            f"it may wait for records, but its {duration(allowed_ns)} (max_wait_ms) have passed"
        ]
    if last_response is not None and last_response.throttle_ms:
        clause = (
            f"the broker throttled this client for {duration(last_response.throttle_ms * _MS)}, and that has passed"
        )
        return WaitKind.THROTTLED, [clause]
    return WaitKind.UNKNOWN, []


class _Others(NamedTuple):
    """The client's other connections: the broker's last response on them, and how many have a late response."""

    answered: int | None  # ns
    waiting: int
    elsewhere: int | None  # the last response of any other broker, ns


def _other_connections(at: int, connection: ConnectionState) -> _Others:
    same_broker: list[int] = []
    elsewhere: list[int] = []
    late_count = 0
    for other in connection.run.state(ConnectionsByClient).others(connection):
        in_flight = other.state(InFlight)
        is_same = other.server == connection.server
        oldest = in_flight.oldest(other)
        late_count += is_same and oldest is not None and at - oldest[1] >= LATE_AFTER
        if in_flight.answered is not None:
            (same_broker if is_same else elsewhere).append(in_flight.answered.at)
    return _Others(max(same_broker, default=None), late_count, max(elsewhere, default=None))
