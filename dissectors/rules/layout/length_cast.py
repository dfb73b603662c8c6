"""L042: the length of records was cast to 16 bits."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis.cast_lengths import find_cast_length
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import sender_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L042",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def length_cast(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the length of records has all its bits.

    ## Why it matters
    Batches over 32 KiB have a wrong length, while the length of smaller ones, including those in most tests, is right.
    The reader takes the records for the fields after them.

    ## Usual cause
    A writer casts the length to int16, as for strings: 65536 becomes 0. If it has computed the size of the frame from
    the right length, the wrong compact length then takes fewer bytes than it counted, so the frame ends early and the
    reader waits for the rest (M005).

    ## Example
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    # a batch of 65,536 bytes, whose length is written as 0
    < hex 0001 00480000 00010000 00000000 00000000 00000001 00066f72 64657273 00000001
          0000 00000000 00000000 00000001 00000000 00000001 00000000 00000000 ffffffff ffffffff 00000000
          00 00000000 00000000 00fff4ff ffffff02 00*65519
    ```

    ## Look-alikes
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1,
      "records": [{"records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_types
    https://github.com/tisonkun/kafka-api/pull/10
    """
    message = event.message
    if message is None or event.damaged or (cast_length := find_cast_length(message)) is None:
        return
    kind = "request" if message.is_request else "response"
    yield Problem(
        f"{message.api} v{message.version} {kind}: {cast_length.sentence}",
        cast_length.start,
        cast_length.end,
        cast_length.path,
        cast_length.hint,
        blame=sender_of(message),
        expected=str(cast_length.size),
        got=str(cast_length.written),
    )
