"""X002: plain Kafka on a TLS listener."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import Direction, FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


class _ClientSide:
    """Whether the client of a connection also uses TLS."""

    uses_tls = False


@rule("X002", severity=Severity.ERROR, events=(FramingLost,), since="0.1", blame="client")
def plaintext_to_tls(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no client sends plain Kafka to a server that expects TLS.

    ## Why it matters
    The server answers the first request with a TLS alert and closes. A client that reads the alert as a Kafka frame
    sees a response of 352 MB: Java clients have run out of memory on it, others report "connection closed".

    ## Usual cause
    The client lacks security.protocol=SSL (or SASL_SSL), or uses the port of the TLS listener by mistake. If kproxy
    terminates the client's TLS, it needs --upstream-tls.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < hex 15 03 03 00 02 02 46
    close by=server how=fin
    ```

    ## Look-alikes
    Both sides use TLS, which kproxy cannot decode:
    ```story
    > hex 16 03 01 02 00 01 00 01 fc 03 03
    < hex 16 03 03 00 7a 02 00 00 76 03 03
    ```

    ## Sources
    https://github.com/apache/kafka/pull/5940
    https://issues.apache.org/jira/browse/KAFKA-4090
    https://github.com/confluentinc/librdkafka/issues/4995
    """
    if event.protocol != "TLS":
        return
    client = connection.state(_ClientSide)
    if event.direction is Direction.REQUEST:
        client.uses_tls = True
    elif connection.tls:
        yield Problem(
            f"upstream {connection.server} expects TLS, but kproxy sends it plain Kafka",
            hint="pass --upstream-tls, or use the port of the broker's plaintext listener",
            blame="proxy",
            expected="a Kafka response",
            got="a TLS record",
        )
    elif not client.uses_tls:
        yield Problem(
            f"server {connection.server} answers with TLS to a client that sends plain Kafka",
            hint="pass --upstream-tls to kproxy, set security.protocol=SSL or SASL_SSL on the client, or use the port "
            "of a plaintext listener",
            expected="a Kafka response",
            got="a TLS record",
        )
