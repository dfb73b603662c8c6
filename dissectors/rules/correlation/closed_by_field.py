"""C022: a server that closes the connection after requests with one form of a field, and answers the others."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import LONG_POLLS
from dissectors.trackers.connection_endings import (
    CAUSED_WITHIN,
    CLOSED_IN_FLIGHT,
    CLOSED_UPON_REQUEST,
    ConnectionEndings,
)
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.request_shapes import RequestShapes
from dissectors.trackers.state import ConnectionState


@rule(
    "C022",
    severity=Severity.ERROR,
    events=(ConnectionEnded,),
    needs=(ConnectionEndings, InFlight, RequestShapes),
    since="0.1",
    blame="broker",
)
def closed_by_field(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server does not close connections because of one field of a request.

    ## Why it matters
    Some clients work with this server and others never do, with the same API and version. The request is valid, so
    there is nothing to find in the client.

    ## Usual cause
    A server or gateway with its own parser, which does not expect null, an empty value or a negative number. Reported
    if exactly one field has the same form in all requests after which the server closed the connection at once (at
    least two), and another form in all requests that it answered (at least two).

    ## Example
    ```story
    1> Metadata v1 {"topics": [{"name": "a"}]}
    1< {}
    2> Metadata v1 {"topics": null}
    2 close by=server how=fin
    3> Metadata v1 {"topics": [{"name": "b"}]}
    3< {}
    +1s
    4> Metadata v1 {"topics": null}
    4 close by=server how=fin
    ```

    ## Look-alikes
    A broker that was stopped:
    ```story
    1> Metadata v1 {"topics": [{"name": "a"}]}
    1< {}
    2> Metadata v1 {"topics": null}
    2< {}
    3> Metadata v1 {"topics": null}
    3 close by=server how=fin
    +1s
    4> Metadata v1 {"topics": null}
    4 close by=server how=fin
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/6570
    https://github.com/redpanda-data/redpanda/pull/6585
    """
    endings = connection.run.state(ConnectionEndings)
    if endings.cause not in (CLOSED_IN_FLIGHT, CLOSED_UPON_REQUEST):
        return
    oldest = endings.unanswered[0]
    request = oldest.message
    if (
        request.api in LONG_POLLS
        or not request.well_formed
        or event.at - oldest.at > CAUSED_WITHIN
        or (request.api_key, request.version) in connection.state(InFlight).served
    ):
        return
    culprit = connection.run.state(RequestShapes).note_closed(connection.server, request, event.at)
    if culprit is None:
        return
    yield Problem(
        f"the request is right; {connection.server} closes {request.api} v{request.version} only if {culprit.field} is "
        f"{culprit.form} ({culprit.closed} of {culprit.closed}), and serves it otherwise "
        f"({culprit.served} of {culprit.served})",
        hint=f"the server has to read {culprit.field} also if it is {culprit.form}; until then, send another value",
        cause=f"{request.api} v{request.version} {culprit.field} {culprit.form}",
        request=ConcernedRequest.of(oldest),
    )
