"""C003: a second response with the same correlation id."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import ANSWERS_AGAIN, InFlight, request_text
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "C003",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    broken=True,
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="broker",
)
def duplicate_response(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a request is answered only once.

    ## Why it matters
    Clients take the second response for the answer to the next request: they fail on its correlation id and close the
    connection, or read it with the layout of another API.

    ## Usual cause
    A handler that answers and then fails, so the server sends an error response as well, or a server that reuses the
    header of the previous response.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    < #1 as Metadata v8 {}
    ```

    ## Look-alikes
    A client may reuse an id after the response:
    ```story
    > #1 Metadata v8 {"topics": []}
    < {}
    > #1 Metadata v8 {"topics": []}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/dpkp/kafka-python/issues/1748
    """
    if event.request is not None or event.damaged:
        return
    kind, oldest = connection.state(InFlight).stray or ("", None)
    if kind != ANSWERS_AGAIN:
        return
    text = f"correlation id {event.correlation_id} was already answered"
    if oldest is not None:
        text += f"; {request_text(oldest)} is waiting for a response"
    yield Problem(
        text,
        4,
        8,
        "header.correlation_id",
        hint="send one response for each request, with the correlation id of that request",
        expected=None if oldest is None else str(oldest.message.correlation_id),
        got=str(event.correlation_id),
    )
