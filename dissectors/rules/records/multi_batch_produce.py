"""R024: several batches for one partition in a Produce request."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, problem_location, record_data, severity_in_traffic
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R024",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="client",
)
def multi_batch_produce(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a Produce request has exactly one format 2 batch per partition.

    ## Why it matters
    Kafka refuses the request with INVALID_RECORD ("exactly one record batch"); other servers may store the first batch
    and answer without error.

    ## Usual cause
    A client that concatenates its batches for a partition, or forwards a fetched record set unchanged.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a"}]}, {"records": [{"value": "b"}]}]}]}]}
    ```

    ## Look-alikes
    Format 1 has no batches, so several messages follow each other:
    ```story
    > Produce v2 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"magic": 1, "records": [{"value": "a"}]}, {"magic": 1, "records": [{"value": "b", "offset": 1}]}]}]}]}
    ```

    ## Sources
    https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/requests/ProduceRequest.java
    """
    for part in record_data(event, connection).parts:
        if len(part.batches) > 1 and part.batches[0].magic == 2:
            second = part.batches[1]
            yield Problem(
                f"{label(part.topic_partition, connection)}: {len(part.batches)} batches in one Produce, should be 1",
                **problem_location(event, part, second.start, second.end, "1"),
                hint="put all records of a partition in one batch, or send the next batch in another request",
                severity=severity_in_traffic(connection),
                expected="1",
                got=str(len(part.batches)),
                cause=part.topic_partition[0],
            )
