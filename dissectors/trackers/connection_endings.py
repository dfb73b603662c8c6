"""ConnectionEndings: why connections ended with requests in flight."""

from __future__ import annotations

from collections import deque

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, Direction, RequestReceived
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.answered_apis import AnsweredApis
from dissectors.trackers.authentication import BEFORE_LOGIN, Authentication, Listeners, SaslPhase
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import API_VERSIONS, ConnectionState
from dissectors.trackers.versions import PRE_LOGIN_APIS, Versions

#: If a connection ends within this time (ns) after the first request after an idle time, it was already closed.
STALE_WITHIN = 10 * SECOND

#: If the server closes within the first time (ns) after a request, the request is the cause; within the second time, a
#: missing login may be the cause.
CAUSED_WITHIN = 5 * SECOND
REJECTED_WITHIN = 2 * SECOND

#: The number of connections that must end after the same request for it to be the cause.
MIN_TIMES = 2

#: A server that closes this many other connections within this time (ns) is shutting down.
MIN_OTHERS = 3
TOGETHER_WITHIN = 2 * SECOND
_MAX_SERVERS = 1_000

#: Causes. The server closed: with requests in flight, repeatedly after such a request, while idle, or for lack of
#: SASL. `LEFT_OPEN`: another party ended the connection.
CLOSED_IN_FLIGHT, CLOSED_UPON_REQUEST, CLOSED_WHILE_IDLE = "in flight", "upon request", "while idle"
CLOSED_BEFORE_LOGIN, LEFT_OPEN = "turned away", "left open"

#: Nothing on the path to the server answered: TCP sent the requests at least this often. Less is ordinary packet loss.
UNREACHABLE = "unreachable"
MIN_TRANSMISSIONS = 4


class _ClosingRequests(Recurrence):
    """Counts the connections that a kind of request closed. Its key is server, client id, API key and version."""


@tracker(
    events=(ConnectionEnded,),
    needs=(Authentication, InFlight, Listeners, AnsweredApis, Versions),
)
class ConnectionEndings:
    """How the latest connection ended.

    `unanswered` are its requests in flight, and `cause` is why they have no response; None if another rule explains
    that, or if kproxy or a TLS failure ended the connection. `times` counts the connections that ended after
    such a request or, if the server was unreachable, how often TCP sent the request. `is_shutdown` says whether the
    server closed several other connections shortly before.
    """

    def __init__(self) -> None:
        self.unanswered: list[RequestReceived] = []
        self.cause: str | None = None
        self.times = 0
        self.is_shutdown = False
        #: When each server closed its latest connections.
        self._closed_at: BoundedDict[str, deque[int]] = BoundedDict(_MAX_SERVERS)

    def observe(self, event: ConnectionEnded, connection: ConnectionState) -> None:
        """Determine why the connection ended."""
        in_flight = connection.state(InFlight)
        self.unanswered = list(in_flight.waiting.values())
        self.cause = None
        self.is_shutdown = event.by == "server" and self._record_closing(event.at, connection.server)
        unacknowledged = event.unacknowledged
        if (
            event.unanswered
            and unacknowledged is not None
            and unacknowledged[0] is Direction.REQUEST
            and unacknowledged[1] >= MIN_TRANSMISSIONS
        ):
            self.unanswered, self.cause, self.times = event.unanswered, UNREACHABLE, unacknowledged[1]
            return
        if not self.unanswered or event.by == "proxy" or event.how == "tls" or in_flight.explains_problems(event.at):
            return
        if event.by != "server":
            self.cause = LEFT_OPEN
        elif not event.incomplete_frames[1]:  # else a response was truncated
            self.cause = self._find_cause(event, in_flight, connection)

    def _record_closing(self, at: int, server: str) -> bool:
        """Record that a server closed a connection; return whether it has just closed several others."""
        close_times = self._closed_at.touch(server, lambda: deque(maxlen=MIN_OTHERS))
        is_shutdown = len(close_times) == MIN_OTHERS and at - close_times[0] < TOGETHER_WITHIN
        close_times.append(at)
        return is_shutdown

    def _find_cause(self, event: ConnectionEnded, in_flight: InFlight, connection: ConnectionState) -> str | None:
        oldest = self.unanswered[0]
        waited_ns, request = event.at - oldest.at, oldest.message
        if request.api == "SaslAuthenticate" and waited_ns <= CAUSED_WITHIN:
            return None  # a login that failed
        expired_at = connection.state(Authentication).expires_at
        if expired_at is not None and oldest.at > expired_at:
            return None  # the session has expired
        if oldest.offset == in_flight.first_after_idle and waited_ns <= STALE_WITHIN:
            return CLOSED_WHILE_IDLE
        if _is_not_served(request, connection):
            return None  # version rules report it
        if waited_ns <= REJECTED_WITHIN and _may_want_sasl(in_flight, connection):
            return CLOSED_BEFORE_LOGIN
        key = connection.server, connection.client_id, request.api_key, request.version
        if (
            waited_ns > CAUSED_WITHIN
            or connection.run.state(AnsweredApis).has(key)
            or _is_counted_by_version_rules(request, connection)
        ):
            return CLOSED_IN_FLIGHT
        self.times = connection.run.state(_ClosingRequests).count(key, event.at)
        return CLOSED_UPON_REQUEST if self.times >= MIN_TIMES else CLOSED_IN_FLIGHT


def _is_not_served(request: Message, connection: ConnectionState) -> bool:
    """Whether the server does not advertise this version."""
    ranges = connection.state(Versions).ranges(connection)
    if ranges is None or request.api_key in PRE_LOGIN_APIS:
        return False
    lowest, highest = ranges.get(request.api_key, (0, -1))
    return not lowest <= request.version <= highest


def _is_counted_by_version_rules(request: Message, connection: ConnectionState) -> bool:
    """Whether the version rules count this ending, and report it when it recurs."""
    versions = connection.state(Versions)
    answered = versions.server(connection).answered
    if request.api_key == API_VERSIONS:
        return any(key == API_VERSIONS for key, _ in answered)
    return versions.ranges(connection) is not None and (request.api_key, request.version) not in answered


def _may_want_sasl(in_flight: InFlight, connection: ConnectionState) -> bool:
    """Whether this was the client's first request and the listener may require SASL."""
    return (
        connection.state(Authentication).phase is SaslPhase.NONE
        and connection.server not in connection.run.state(Listeners).open
        and not connection.midstream
        and all(key == API_VERSIONS for key, _ in in_flight.served)
        and next(iter(in_flight.waiting.values())).message.api not in BEFORE_LOGIN
    )
