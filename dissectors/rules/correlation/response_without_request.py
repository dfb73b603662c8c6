"""C001: a response without a request in flight."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import ANSWERS_NOTHING, InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "C001",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    broken=True,
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="broker",
)
def response_without_request(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that every response answers a request in flight on its connection.

    ## Why it matters
    Clients match responses by correlation id alone. For an unknown id, they fail, close the connection, or wait for
    the right one until the request times out.

    ## Usual cause
    The server does not copy the request's id: it uses its own counter, or a template with a fixed id. Or a header field
    is missing or duplicated, so the id is read two or four bytes off. Reported once per server; the requests that were
    probably meant are not reported as unanswered as well.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < #1001 as Metadata v8 {}
    ```
    ```hex response
    00 00 00 06              # length
    00 00 00 07              # correlation_id 7: nothing with that id was asked
    00 00                    # error_code
    ```

    ## Looks alike
    A capture that begins late lacks the request. A response that overtakes another is C002, a second response C003, and
    the response to a Produce with acks=0 C005:
    ```story
    open 1 midstream
    < #1001 as Metadata v8 {}
    ```
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    < #1 as Produce v7 {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/apache/kafka/pull/7251
    """
    if event.request is not None or event.damaged:
        return
    kind, oldest = connection.state(InFlight).stray or ("", None)
    if kind != ANSWERS_NOTHING:
        return
    correlation_id = event.correlation_id
    text, expected = f"no request in flight has correlation id {correlation_id}", None
    if oldest is not None:
        oldest_message = oldest.message
        expected = str(oldest_message.correlation_id)
        text += (
            f"; it probably answers the oldest, {oldest_message.api} v{oldest_message.version}, which has {expected}:"
            f" the id is off by {correlation_id - oldest_message.correlation_id:+}"
        )
    yield Problem(
        text,
        4,
        8,
        "header.correlation_id",
        hint="copy the request's correlation id unchanged into the response, as the first field of its header",
        expected=expected,
        got=str(correlation_id),
    )
