"""C014: a connection that ends inside a frame."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.in_flight import InFlight, request_text
from dissectors.trackers.state import ConnectionState


@rule("C014", severity=Severity.ERROR, events=(ConnectionEnded,), needs=(InFlight,), since="0.1")
def closed_mid_frame(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a peer closes a connection between frames, not inside one.

    ## Why it matters
    The other side has read half a message: clients report "unexpected EOF" or "connection reset by peer" and do not
    know whether their requests succeeded.

    ## Usual cause
    A process that crashed or was killed, or a load balancer or proxy that cuts connections. A server that closes while
    the client is still sending refuses the request (too large: socket.request.max.bytes), which is a warning. A length
    prefix that counts more bytes than were sent looks the same.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < hex 00 00 00 50  00 00 00 01  00 00 00 00
    close by=server how=reset
    ```
    ```story
    > hex 00 00 00 50  00 03 00 08  00 00 00 01
    close by=server how=fin
    ```

    ## Look-alikes
    A client that leaves while it receives a large Fetch response; a capture or kproxy that ends before the connection:
    ```story
    > Fetch v4 {"max_wait_ms": 500, "topics": []}
    < hex 00 00 00 50  00 00 00 01  00 00 00 00
    close by=client how=reset
    ```
    ```story
    > hex 00 00 00 50  00 03 00 08  00 00 00 01
    close
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_common
    https://kafka.apache.org/documentation/#brokerconfigs_socket.request.max.bytes
    """
    request_bytes, response_bytes = event.incomplete_frames
    if event.by not in ("client", "server") or not (request_bytes or response_bytes):
        return
    flight = connection.state(InFlight)
    if flight.explains_problems(event.at):
        return
    if response_bytes and event.by == "server":
        oldest = next(iter(flight.waiting.values()), None)
        request_note = f", most likely the answer to {request_text(oldest)}" if oldest is not None else ""
        yield Problem(
            f"the server closed the connection {count_text(response_bytes, 'byte')} into a response{request_note}",
            hint="check whether the server crashed, and what is between it and the client",
            blame="broker",
            cause="response",
            request=None if oldest is None else ConcernedRequest.of(oldest),
        )
    elif request_bytes:
        yield Problem(
            f"the {event.by} closed the connection {count_text(request_bytes, 'byte')} into a request",
            severity=Severity.WARNING if event.by == "server" else None,
            hint="compare the size of the request with the server's socket.request.max.bytes"
            if event.by == "server"
            else "check whether the client crashed or was killed, and what is between it and the server",
            blame=event.by if event.by == "client" else "broker",
            cause=f"request {event.by}",
        )
