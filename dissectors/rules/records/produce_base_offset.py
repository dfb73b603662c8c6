"""R015: an invalid base offset in a Produce request or response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import label, topic_name_or_id
from dissectors.trackers.record_data import RecordData, problem_location, record_data, sent_records, severity_in_traffic
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R015",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def produce_base_offset(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a produced batch has base offset 0, and that the broker returns the offset that it assigned.

    ## Why it matters
    Only the broker assigns offsets; a less careful server stores what was sent. A successful response with offset -1
    leaves the application without the offset of its record.

    ## Usual cause
    A batch copied from a fetch and sent unchanged, or a server that fills in the response before it writes.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"base_offset": 41, "records": [{"value": "a"}]}]}]}]}
    ```
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": -1}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "error_code": 6, "base_offset": -1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/twmb/franz-go/issues/846
    """
    if isinstance(event, RequestReceived):
        yield from _check_sent_batches(event, connection)
        return
    message = event.message
    if message is None:
        return
    for i, topic in enumerate(message.body.get("responses", ())):
        for j, row in enumerate(topic.get("partition_responses", ())):
            if row.get("base_offset") == -1 and row.get("error_code") == 0:
                topic_partition = topic_name_or_id(topic), row.get("index", 0)
                if topic_partition in sent_records(event.request):
                    path = "responses", i, "partition_responses", j, "base_offset"
                    yield Problem(
                        f"{label(topic_partition, connection)}: the batch was accepted with offset -1, should be "
                        "the offset the broker assigned",
                        **locate(message, *path),
                        hint="return the offset of the batch's first record after it is written",
                        blame="broker",
                        cause=topic_partition[0],
                    )


def _check_sent_batches(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    for part in record_data(event, connection).parts:
        for index, batch in enumerate(part.batches):
            if batch.base_offset and batch.magic == 2:
                yield Problem(
                    f"{label(part.topic_partition, connection)}: a produced batch has base offset "
                    f"{batch.base_offset}, should "
                    "be 0",
                    **problem_location(event, part, batch.start, batch.start + 8, str(index), "base_offset"),
                    hint="send base offset 0: the broker assigns offsets",
                    blame="client",
                    severity=severity_in_traffic(connection),
                    expected="0",
                    got=str(batch.base_offset),
                    cause=part.topic_partition[0],
                )
                break
