"""M009: a request that begins inside another one."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.connections.inner_requests import inner_request
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import FrameAlignment
from dissectors.trackers.record_data import RecordData, faults_of_kind
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "M009",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    broken=True,
    only=FrameFlags.IRREGULAR,
    needs=(RecordData, FrameAlignment),
    since="0.1",
    blame="client",
)
def request_inside_request(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a request is sent completely before the next one begins.

    ## Why it matters
    The broker takes the next request for the rest of the previous one, and the bytes after that for a length prefix. It
    closes the connection, or writes bytes that are not records; until then, requests are lost without an error.

    ## Usual cause
    A request that was sent only partly times out or fails. The client drops it, but keeps the connection, and sends the
    next request from its beginning. After a partial write, a client has to send the rest or to close the connection.

    ## Example
    ```story
    # a Produce of 66 bytes; after 35 of them, ApiVersions begins
    > hex 00000042 00000003 00000005 0003 617070 ffff 0001 00007530 00000001 0006 6f726465
          0000000d 00120000 00000006 0003 617070 00*18
    ```

    ## Look-alikes
    A value that quotes a request, in a complete request:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": {"hex": "0000000d 00120000 00000006 0003 617070"}}]}]}]}]}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/756
    """
    message = event.message
    is_broken = message.error is not None or message.trailing or message.diagnosis is not None
    if event.damaged or not (is_broken or _has_bad_records(connection, event)):
        return
    inner = inner_request(message)
    if inner is None:
        return
    connection.state(FrameAlignment).note_explained(event)
    outer = f"{message.api} v{message.version} (correlation id {message.header.get('correlation_id')})"
    yield Problem(
        f"{outer}: its size is {event.size}, but at byte {inner.start} another request begins inside it: {inner.api} "
        f"v{inner.version} (correlation id {inner.correlation_id}); the first was never completed",
        inner.start,
        min(inner.start + 14, len(message.frame)),
        hint="after a partial write, send the rest or close the connection, also if the request times out",
        expected=f"{event.size} bytes",
        got=f"{inner.start - 4} bytes",
        cause="",
    )


def _has_bad_records(connection: ConnectionState, event: RequestReceived) -> bool:
    return any(faults_of_kind(event, connection, kind) for kind in (FaultKind.CRC, FaultKind.LENGTH))
