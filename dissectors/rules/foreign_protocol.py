"""X001, X003, X004: a stream that is no Kafka."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.conversation import Conversation
from dissectors.events import FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("X001", severity=Severity.ERROR, events=(FramingLost,), since="0.1", blame="client")
def tls_to_plaintext(event: FramingLost, _: Conversation) -> Iterator[Problem]:
    """Checks that nobody speaks TLS where Kafka's plain protocol is expected.

    ## Why it matters
    The broker reads the hello as a length of 369 MB and closes; the client says "SSL handshake failed" or nothing.
    To kproxy encrypted traffic stays closed: it is relayed, not decoded.

    ## Usual cause
    security.protocol says SSL on one side and PLAINTEXT on the other; or all is well and kproxy sits on a TLS port.

    ## Example
    ```hex request
    16 03 01 02 00 01 00 01 fc 03 03    # a TLS client hello
    ```

    ## Sources
    https://kafka.apache.org/documentation/#security_ssl
    """
    if event.protocol == "TLS":
        yield Problem("TLS, not Kafka: " + event.reason, hint=event.hint)


@rule("X003", severity=Severity.ERROR, events=(FramingLost,), since="0.1", blame="client")
def http_to_kafka(event: FramingLost, _: Conversation) -> Iterator[Problem]:
    """Checks that nobody speaks HTTP on Kafka's port.

    ## Why it matters
    The broker reads "GET " as a length of 1.2 GB and closes the connection; health checks fail.

    ## Usual cause
    A health check, a browser or a metrics scraper with the wrong port.

    ## Example
    ```hex request
    47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a    # GET / HTTP/1.1
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    """
    if event.protocol == "HTTP":
        yield Problem("HTTP, not Kafka: " + event.reason, hint=event.hint)


@rule("X004", severity=Severity.ERROR, events=(FramingLost,), since="0.1", blame="client")
def other_protocol(event: FramingLost, _: Conversation) -> Iterator[Problem]:
    """Checks that nobody speaks another protocol (SSH, AMQP, Redis, ...) on Kafka's port.

    ## Why it matters
    Nothing after its first bytes can be a Kafka frame.

    ## Usual cause
    A wrong port.

    ## Example
    ```hex request
    53 53 48 2d 32 2e 30 2d 4f 70 65 6e 53 53 48    # SSH-2.0-OpenSSH
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    """
    if event.protocol not in (None, "TLS", "HTTP"):
        yield Problem(f"{event.protocol}, not Kafka: {event.reason}", hint=event.hint)
