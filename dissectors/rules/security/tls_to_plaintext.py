"""X001: TLS on a plaintext listener."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import Direction, FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("X001", severity=Severity.ERROR, events=(FramingLost,), since="0.1", blame="client")
def tls_to_plaintext(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no client uses TLS on a plaintext Kafka listener.

    ## Why it matters
    The broker reads the TLS hello as a length of 369 MB and closes the connection; the client reports "SSL handshake
    failed" or nothing. kproxy cannot read encrypted traffic: it is relayed, not decoded.

    ## Usual cause
    security.protocol is SSL on one side and PLAINTEXT on the other. Or everything works and kproxy relays a TLS port:
    pass --tls-cert and --upstream-tls, so that kproxy sees plaintext; for a capture, provide its key log.

    ## Example
    ```hex request
    16 03 01 02 00 01 00 01 fc 03 03    # a TLS client hello
    ```

    ## Look-alikes
    A client id that begins like a TLS hello, after a valid length and header:
    ```hex request
    00 00 00 10  00 12 00 00  00 00 00 01  00 06 16 03 01 02 00 01
    ```

    ## Sources
    https://kafka.apache.org/documentation/#security_ssl
    https://github.com/tulios/kafkajs/issues/1643
    https://github.com/linkedin/Burrow/issues/435
    """
    if event.protocol == "TLS" and event.direction is Direction.REQUEST:
        yield Problem(
            f"client {host_of(connection.client)} sends TLS to {connection.server}, where plain Kafka is expected",
            hint="if the broker's listener is plaintext, set security.protocol=PLAINTEXT or SASL_PLAINTEXT on the "
            "client; if it uses TLS, pass --tls-cert, --tls-key and --upstream-tls to kproxy, so that it can decode",
            expected="a Kafka request",
            got="a TLS record",
        )
