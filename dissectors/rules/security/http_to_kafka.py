"""X003: HTTP on Kafka's port."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import Direction, FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("X003", severity=Severity.ERROR, events=(FramingLost,), since="0.1", blame="network")
def http_to_kafka(event: FramingLost, _: ConnectionState) -> Iterator[Problem]:
    """Checks that no client or server uses HTTP on Kafka's port.

    ## Why it matters
    The broker reads "GET " as a length of 1.2 GB and closes the connection, so health checks fail. A client that
    connects to a web server likewise reads "HTTP" as the length of a response.

    ## Usual cause
    A health check, browser or metrics scraper that uses the wrong port, or a client whose bootstrap server is an HTTP
    port.

    ## Example
    ```hex request
    47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a    # GET / HTTP/1.1
    ```
    ```story
    > ApiVersions v0
    < hex 48 54 54 50 2f 31 2e 31 20 34 30 30 20 42 61 64    # HTTP/1.1 400 Bad
    ```

    ## Look-alikes
    A client whose id is "GET /":
    ```hex request
    00 00 00 0f  00 12 00 00  00 00 00 01  00 05 47 45 54 20 2f
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    https://github.com/quarkusio/quarkus-quickstarts/issues/1088
    """
    if event.protocol == "HTTP":
        if event.direction is Direction.RESPONSE:
            yield Problem(
                "the server answers in HTTP, not Kafka: " + event.reason,
                hint="this port belongs to a web server or an HTTP proxy; check the client's bootstrap.servers",
            )
        else:
            yield Problem("HTTP, not Kafka: " + event.reason, hint=event.hint)
