"""C002: a response that overtakes an older request."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.conversation import Conversation
from dissectors.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("C002", severity=Severity.ERROR, events=(ResponseReceived,), broken=True, since="0.1", blame="broker")
def out_of_order_response(event: ResponseReceived, _: Conversation) -> Iterator[Problem]:
    """Checks that responses come in the order of their requests.

    ## Why it matters
    Kafka guarantees the order on a connection, and clients count on it: the Java client raises "Correlation id for
    response does not match request" and closes the connection.

    ## Usual cause
    A server or proxy that works on the requests of one connection in parallel.

    ## Example
    ```hex request
    00 00 00 0a  00 12 00 00  00 00 00 01  ff ff    # ApiVersions v0, correlation_id 1
    ```
    ```hex request
    00 00 00 0a  00 12 00 00  00 00 00 02  ff ff    # ApiVersions v0, correlation_id 2
    ```
    ```hex response
    00 00 00 0a  00 00 00 02  00 00  00 00 00 00    # answers the second first
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    """
    if event.passed_over:
        older = event.passed_over
        waits = "1 older request waits" if older == 1 else f"{older} older requests wait"
        message = f"answers correlation id {event.correlation_id} while {waits}"
        yield Problem(message, 4, 8, "header.correlation_id")
