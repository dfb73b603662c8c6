"""R008: record data in a format that its API version does not support."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import (
    RecordData,
    fault_problem,
    faults_of_kind,
    problem_location,
    record_data,
    severity_in_traffic,
)
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: The first versions of Produce and Fetch that carry batches of format 2, and of Fetch for messages of format 1.
_PRODUCE_2, _FETCH_2, _FETCH_1 = 3, 4, 2

_MAGIC_OFFSET = 16


@rule(
    "R008",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def magic_wrong_for_api(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that record data is in a format that its API version supports.

    ## Why it matters
    Brokers refuse Produce v3 or later with anything but format 2. A client that fetches with an old version knows only
    the old formats: it takes a format 2 batch for corrupt data, or for the end of the data.

    ## Usual cause
    A client that raised the version of a request but not its record format, or a server that sends its stored records
    unchanged to every version.

    ## Example
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"magic": 1, "records": [{"value": "a"}]}]}]}]}
    ```
    ```story
    > Fetch v3 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": [
      {"records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    A topic that still has messages in old formats:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 2, "records": [
      {"magic": 1, "records": [{"value": "a"}]}, {"base_offset": 1, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#messageformat
    https://github.com/IBM/sarama/issues/988
    https://github.com/IBM/sarama/issues/940
    https://github.com/zendesk/ruby-kafka/issues/445
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.MAGIC):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "only formats 0, 1 and 2 exist: check that the batch starts where it should",
        )
    message = event.message
    if message is None:
        return
    allowed_formats = _allowed_formats(message.api, message.version)
    if not record_data(event, connection).magics & ~sum(1 << magic for magic in allowed_formats):
        return
    allowed_text = " or ".join(map(str, allowed_formats))
    for part in record_data(event, connection).parts:
        for index, batch in enumerate(part.batches):
            if batch.magic not in allowed_formats:
                yield Problem(
                    f"{label(part.topic_partition, connection)}, batch {index}: record format {batch.magic} in "
                    f"{message.api} v{message.version}, should be {allowed_text}",
                    **problem_location(
                        event, part, batch.start + _MAGIC_OFFSET, batch.start + _MAGIC_OFFSET + 1, str(index), "magic"
                    ),
                    hint=f"write the records in format {allowed_formats[-1]}, or use another version of {message.api}",
                    blame="client" if message.is_request else "broker",
                    severity=severity_in_traffic(connection),
                    expected=allowed_text,
                    got=str(batch.magic),
                    cause=part.topic_partition[0],
                )
                break


def _allowed_formats(api: str, version: int) -> tuple[int, ...]:
    if api == "Produce":
        return (2,) if version >= _PRODUCE_2 else (0, 1, 2)  # brokers accept any format in old versions
    if api == "Fetch" and version < _FETCH_2:
        return (0, 1) if version >= _FETCH_1 else (0,)
    return (0, 1, 2)
