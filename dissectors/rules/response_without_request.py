"""C001: a response that nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.conversation import Conversation
from dissectors.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("C001", severity=Severity.ERROR, events=(ResponseReceived,), broken=True, since="0.1", blame="broker")
def response_without_request(event: ResponseReceived, _: Conversation) -> Iterator[Problem]:
    """Checks that every response answers a request in flight on its connection.

    ## Why it matters
    Clients match responses by correlation id alone. On an id that they did not send they raise, close the
    connection, or wait for the right one until the request times out.

    ## Usual cause
    A header field is missing or doubled, so the id is read two or four bytes off; a Produce with acks=0 was answered;
    or a server answers from a template with a fixed id.

    ## Example
    ```hex response
    00 00 00 06              # length
    00 00 00 07              # correlation_id 7: nothing with that id was asked
    00 00                    # error_code
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    """
    if event.request is None and not event.damaged:
        yield Problem(f"no request in flight has correlation id {event.correlation_id}", 4, 8, "header.correlation_id")
