"""R014: null instead of an empty records field."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, record_data
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R014",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="broker",
)
def null_records(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a fetch without records has an empty records field, not null.

    ## Why it matters
    The schema allows null, but librdkafka and the clients built on it fail: "PROTOERR ... invalid MessageSetSize -1".
    Kafka sends an empty field; up to 3.9 it sends null along with some errors, which is not reported here.

    ## Usual cause
    A server that leaves the field unset if there is nothing to send, and a serializer that writes that as -1.

    ## Example
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": null}]}]}
    ```

    ## Look-alikes
    No new records, and a partition with an error:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}, {"partition": 1}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": ""},
      {"partition_index": 1, "error_code": 6, "records": null}]}]}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/18726
    https://github.com/apache/kafka/pull/19131
    https://github.com/ydb-platform/ydb/pull/52234
    https://github.com/estuary/flow/pull/1693
    """
    if event.request_body is None or event.message is None:
        return
    for part in record_data(event, connection).null:
        yield Problem(
            f"{label(part.topic_partition, connection)}: records are null, should be empty",
            **locate(event.message, *part.path, "records"),
            hint="send an empty records field: length 0, or the byte 1 in flexible versions",
            expected="empty",
            got="null",
            cause=part.topic_partition[0],
        )
