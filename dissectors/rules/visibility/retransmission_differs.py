"""K008: bytes that TCP sent again with different values."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import BytesDiffer
from dissectors.findings import Problem, Severity
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_KINDS = ("requests", "responses")


@rule("K008", severity=Severity.WARNING, events=(BytesDiffer,), since="0.1")
def retransmission_differs(event: BytesDiffer, connection: ConnectionState) -> Iterator[Problem]:
    """Reports, once per connection and direction, that a packet in a capture repeats bytes with different values.

    ## Why it matters
    TCP retransmits the same bytes, never others. So one of the two packets is not what the sender sent. kproxy decoded
    the first copy; the receiver may have taken the other. What other findings say about these bytes, for example that a
    frame is malformed, may not be the fault of client or broker. Retransmissions are compared with the last 8 MiB of a
    capture at most, and packets of a single byte are not compared: they are usually keep-alive probes.

    ## Usual cause
    A device on the path that rewrites the content of packets, captured before and after it. A packet that was damaged
    in transit: its checksum is wrong, so the receiver dropped it and the sender repeated it. A capture that was merged
    or edited, or that has packets from two hosts with the same address. Or somebody who injects packets.

    ## Example
    ```story
    > ApiVersions v0
    differ > 8 size=24 differing=4
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0
    lose < 1460                    # bytes that were captured not even once: K001
    ```

    ## Sources
    https://datatracker.ietf.org/doc/html/rfc9293#section-3.10.7.4
    https://datatracker.ietf.org/doc/html/rfc5961
    """
    yield Problem(
        f"{event.differing} of {count_text(event.size, 'byte')} of a packet of the {_KINDS[event.direction]} differ "
        f"from what was sent before at the same place of the TCP stream, from offset {event.offset} on; the first copy "
        "was decoded",
        hint="look at both packets, their checksums and TTLs: somebody injects packets, a device rewrites them, "
        "one was damaged, or the capture is broken",
        cause=f"{connection.connection_id} {event.direction}",
    )
