"""Why connections ended with requests in flight."""

from __future__ import annotations

from dissectors.connections.events import ConnectionEnded, RequestReceived
from dissectors.messages.message import Message
from dissectors.trackers import tracker
from dissectors.trackers.answered_apis import AnsweredApis
from dissectors.trackers.authentication import BEFORE_LOGIN, Authentication, Listeners, SaslPhase
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import API_VERSIONS, ConnectionState
from dissectors.trackers.versions import PRELUDE, Versions

#: A connection that ends so soon after the first request that follows an idle time was closed meanwhile (ns).
AWAKE = 10 * SECOND

#: A server that closes so soon after a request closes because of it, and so soon if it wants SASL (ns).
UPON = 5 * SECOND
AT_ONCE = 2 * SECOND

#: Connections that ended upon the same request before that is called a rule.
OFTEN = 2

#: The server closed: while requests waited, each time upon such a request, while idle, or on a client without SASL.
#: Or anybody else ended the connection.
CLOSED_IN_FLIGHT, CLOSED_UPON_REQUEST, CLOSED_WHILE_IDLE = "in flight", "upon request", "while idle"
TURNED_AWAY, LEFT_OPEN = "turned away", "left open"


class _Refused(Recurrence):
    """By server, client id, API and version."""


@tracker(
    events=(ConnectionEnded,),
    needs=(Authentication, InFlight, Listeners, AnsweredApis, Versions),
)
class ConnectionEndings:
    """What is to be said of the connection that has just ended.

    `open` are its requests in flight, `cause` why they stayed without an answer: None where something else explains
    the end, or kproxy itself made it. `times` counts the connections that ended upon such a request.
    """

    def __init__(self) -> None:
        self.open: list[RequestReceived] = []
        self.cause: str | None = None
        self.times = 0

    def observe(self, event: ConnectionEnded, connection: ConnectionState) -> None:
        """Judge an end."""
        flight = connection.state(InFlight)
        self.open = list(flight.waiting.values())
        self.cause = None
        if not self.open or event.by == "proxy" or flight.explains(event.at):
            return
        if event.by != "server":
            self.cause = LEFT_OPEN
        elif not event.half_frames[1]:  # else an answer was cut
            self.cause = self._judge(event, flight, connection)

    def _judge(self, event: ConnectionEnded, flight: InFlight, connection: ConnectionState) -> str | None:
        oldest = self.open[0]
        waited, asked = event.at - oldest.at, oldest.message
        if asked.api == "SaslAuthenticate" and waited <= UPON:
            return None  # a login that failed
        if oldest.offset == flight.woken and waited <= AWAKE:
            return CLOSED_WHILE_IDLE
        if _is_not_served(asked, connection):
            return None  # the version explains the end
        if waited <= AT_ONCE and _may_want_sasl(flight, connection):
            return TURNED_AWAY
        kind = connection.server, connection.client_id, asked.api_key, asked.version
        if waited > UPON or connection.run.state(AnsweredApis).has(kind) or _is_counted(asked, connection):
            return CLOSED_IN_FLIGHT
        self.times = connection.run.state(_Refused).count(kind, event.at)
        return CLOSED_UPON_REQUEST if self.times >= OFTEN else CLOSED_IN_FLIGHT


def _is_not_served(asked: Message, connection: ConnectionState) -> bool:
    """Whether the server does not advertise this version."""
    ranges = connection.state(Versions).ranges(connection)
    if ranges is None or asked.api_key in PRELUDE:
        return False
    lowest, highest = ranges.get(asked.api_key, (0, -1))
    return not lowest <= asked.version <= highest


def _is_counted(asked: Message, connection: ConnectionState) -> bool:
    """Whether the rules of versions count this end, and report it if it happens again."""
    versions = connection.state(Versions)
    served = versions.server(connection).answered
    if asked.api_key == API_VERSIONS:
        return any(key == API_VERSIONS for key, _ in served)
    return versions.ranges(connection) is not None and (asked.api_key, asked.version) not in served


def _may_want_sasl(flight: InFlight, connection: ConnectionState) -> bool:
    """Whether this was the first thing that a client asked of a listener which lets in nobody without SASL."""
    return (
        connection.state(Authentication).phase is SaslPhase.NONE
        and connection.server not in connection.run.state(Listeners).open
        and not connection.midstream
        and all(key == API_VERSIONS for key, _ in flight.served)
        and next(iter(flight.waiting.values())).message.api not in BEFORE_LOGIN
    )
