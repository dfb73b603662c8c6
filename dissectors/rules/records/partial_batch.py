"""R010: a fetch that returns only part of a batch."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, problem_location, record_data
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: From this version on, a broker sends the first batch whole, whatever the limits (KIP-74).
_FIRST_VERSION_WITH_WHOLE_BATCH = 3


@rule(
    "R010",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="broker",
)
def partial_batch(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a fetch that returns any bytes of a partition returns at least one complete batch.

    ## Why it matters
    The consumer cannot read a partial batch. It requests the same offset again, gets the same bytes, and makes no
    progress.

    ## Usual cause
    A server that truncates at `partition_max_bytes` or `max_bytes` without the exception introduced by Fetch v3: the
    first batch is sent whole, whatever the limits. (Up to v2, the client must request more: see S025.)

    ## Example
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 20}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 9, "records":
      "0000000000000000 00000100 ffffffff 02 12345678"}]}]}
    ```

    ## Look-alikes
    A whole batch, and part of the next one:
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 90}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 9, "records":
      "000000000000000000000039ffffffff027e22e4f20000000000000000019b76daa8000000019b76daa800ffffffffffffffffffff
       ffffffff000000010e00000001026100 0000000000000001 00000100 ffffffff 02"}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-74%3A+Add+Fetch+Response+Size+Limit+in+Bytes
    https://github.com/confluentinc/librdkafka/issues/1433
    https://github.com/confluentinc/librdkafka/issues/1579
    https://github.com/tulios/kafkajs/issues/11
    """
    message = event.message
    if message is None or message.version < _FIRST_VERSION_WITH_WHOLE_BATCH or event.request_body is None:
        return
    for part in record_data(event, connection).parts:
        if part.cut_off and not part.batches:
            yield Problem(
                f"{label(part.topic_partition, connection)}: {part.cut_off} bytes of a partial batch and no complete "
                "one; Fetch "
                f"v{message.version} must return the first batch whole",
                **problem_location(event, part, 0, part.cut_off, "0"),
                hint="send the first batch whole even if it exceeds partition_max_bytes and max_bytes",
                cause=part.topic_partition[0],
            )
