"""S080: a Fetch response with records before the start that it states."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import is_follower
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S080",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="broker",
)
def records_before_the_start(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the records in a Fetch response do not lie before its log start offset.

    ## Why it matters
    Records before the log start offset are deleted. Clients compare their position with this field: they drop the
    records, reset the offset, or report a negative lag.

    ## Usual cause
    A broker or gateway that fills in another offset, such as the high watermark, or that reads it for another
    partition. A batch that begins before the log start offset and ends after it is fine: DeleteRecords may stop within
    a batch.

    ## Example
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 45, "log_start_offset": 45, "records": [
       {"base_offset": 40, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    DeleteRecords has deleted the first record of a batch, and an old broker does not fill in the field:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 41}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 45, "log_start_offset": 41, "records": [
       {"base_offset": 40, "last_offset_delta": 1, "records": [{"value": "a"}, {"offset": 41, "value": "b"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 42}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 45, "log_start_offset": -1, "records": [
       {"base_offset": 42, "records": [{"value": "c"}]}]}]}]}
    ```

    ## Sources
    https://github.com/streamnative/kop/issues/1415
    https://kafka.apache.org/protocol#The_Messages_Fetch
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or is_follower(request_body):
        return
    for i, topic in enumerate(topic_records(message)):
        for j, partition in enumerate(topic.partitions):
            batch, start = partition.batch, partition.row.get("log_start_offset", -1)
            if batch is None or batch.last_offset >= start:
                continue
            is_high_watermark = start == partition.row.get("high_watermark")
            yield Problem(
                f"log_start_offset of {label((topic.key, partition.partition or 0), connection)} is {start}"
                f"{', its high watermark,' if is_high_watermark else ''} in a response with records from "
                f"{batch.base_offset} on, which should already have been deleted",
                **locate(message, "responses", i, "partitions", j, "log_start_offset"),
                hint="fix the broker: log_start_offset is the offset of the first record that the partition has",
                expected=f"{batch.base_offset} or less",
                got=str(start),
                cause=topic.key,
            )
