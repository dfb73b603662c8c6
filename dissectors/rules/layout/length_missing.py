"""L038: bytes without their length prefix."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L038",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def length_missing(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the metadata and assignments of group members have a length prefix.

    ## Why it matters
    To Kafka, metadata and assignments are opaque bytes: it takes their first fields for the length, and the group does
    not get the bytes that the member wrote.

    ## Usual cause
    A client that writes the fields of a subscription or assignment directly into the request.

    ## Example
    ```story
    # the metadata follows the protocol's name; the int32 length before it is missing
    > hex 00000049 000b0000 00000003 00086b61 666b615f 65780007 62696c6c 696e6700 00753000 00000863 6f6e7375 6d657200
          00000100 06617373 69676e00 00000000 0100066f 72646572 73000000 00
    ```

    ## Look-alikes
    ```story
    > JoinGroup v0 {"group_id": "billing", "session_timeout_ms": 30000, "member_id": "", "protocol_type": "consumer",
      "protocols": [{"name": "assign", "metadata": {"type": "ConsumerProtocolSubscription", "version": 0,
      "data": {"topics": ["orders"]}}}]}
    ```

    ## Sources
    https://github.com/kafkaex/kafka_ex/issues/158
    """
    yield from layout_problems(event, "length_missing")
