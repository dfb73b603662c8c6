"""S070: a Fetch response with records past the end that it states."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import end_field, is_follower
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S070",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="broker",
)
def records_past_the_end(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the records in a Fetch response lie below its high watermark, or last stable offset.

    ## Why it matters
    Consumers may read records up to the high watermark or, with read_committed, up to the last stable offset. Clients
    use the field: they drop the records, compute a negative lag, or conclude that they are at the end and stop reading.

    ## Usual cause
    A broker or gateway that does not fill in the field: it is -1 or 0. -1 is correct only in a response with an error.
    A batch that begins exactly at the end is fine: Kafka reads the end first, and the batch was written in between.

    ## Example
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": -1, "records": [
       {"base_offset": 40, "records": [{"value": "a"}]}]}]}]}
    ```
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 41, "last_stable_offset": -1, "records": [
       {"base_offset": 40, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    An error, a consumer that does not read transactions, a batch written in the meantime, and a follower, which gets
    records before they are replicated:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 41, "last_stable_offset": -1, "records": [
       {"base_offset": 40, "records": [{"value": "a"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 41}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 41, "records": [
       {"base_offset": 41, "records": [{"value": "a"}]}]}]}]}
    > Fetch v11 {"replica_id": 2, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 43}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 41, "records": [
       {"base_offset": 43, "records": [{"value": "b"}]}]}]}]}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/580
    https://kafka.apache.org/protocol#The_Messages_Fetch
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or is_follower(request_body):
        return
    field = end_field(request_body)
    name = field.replace("_", " ")
    for i, topic in enumerate(topic_records(message)):
        for j, partition in enumerate(topic.partitions):
            batch, end = partition.batch, partition.row.get(field)
            if batch is None or end is None or batch.base_offset <= end:
                continue
            yield Problem(
                f"{field} of {label((topic.key, partition.partition or 0), connection)} is {end} in a successful "
                f"response with records up to {batch.last_offset}"
                + (f": the broker has not filled in the {name}" if end <= 0 else ""),
                **locate(message, "responses", i, "partitions", j, field),
                hint=f"fix the broker: records up to {batch.last_offset} need a {field} of {batch.last_offset + 1} "
                "or more",
                expected=f"{batch.last_offset + 1} or more",
                got=str(end),
                cause=field,
            )
