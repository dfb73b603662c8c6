"""X004: another protocol on Kafka's port."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import FramingLost, ProxyHeaderReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("X004", severity=Severity.ERROR, events=(FramingLost, ProxyHeaderReceived), since="0.1", blame="network")
def other_protocol(event: FramingLost | ProxyHeaderReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no other protocol (SSH, AMQP, Redis, ...) is used on Kafka's port.

    ## Why it matters
    Nothing after its first bytes can be a Kafka frame. A PROXY protocol header is reported as info: kproxy skips it
    and reads the frames after it, but an Apache Kafka broker takes it for a length and closes the connection.

    ## Usual cause
    A wrong port, ZooKeeper health checks against a KRaft broker, or a load balancer that sends the PROXY protocol to a
    server that does not expect it.

    ## Example
    ```hex request
    53 53 48 2d 32 2e 30 2d 4f 70 65 6e 53 53 48    # SSH-2.0-OpenSSH
    ```
    A PROXY header, version 1:
    ```story
    > hex 50 52 4f 58 59 20 55 4e 4b 4e 4f 57 4e 0d 0a    # PROXY UNKNOWN
    ```

    ## Look-alikes
    A client whose id is "SSH-2":
    ```hex request
    00 00 00 0f  00 12 00 00  00 00 00 01  00 05 53 53 48 2d 32
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    https://github.com/kroxylicious/kroxylicious/pull/3546
    """
    if isinstance(event, ProxyHeaderReceived):
        yield Problem(
            f"a PROXY protocol header (version {event.version}) goes to {connection.server} before the first frame",
            severity=Severity.INFO,
            hint="correct if a proxy listens there; a Kafka broker closes the connection: disable it in the "
            "load balancer",
        )
    elif event.protocol not in (None, "TLS", "HTTP"):
        yield Problem(f"{event.protocol}, not Kafka: {event.reason}", hint=event.hint)
