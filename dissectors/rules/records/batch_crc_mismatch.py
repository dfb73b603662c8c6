"""R001: the CRC of a batch does not match its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.connections.inner_requests import inner_request
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.record_data import RecordData, fault_problem, faults_of_kind
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R001",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def batch_crc_mismatch(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the CRC of every record batch and message matches its bytes.

    ## Why it matters
    Brokers refuse such a batch with CORRUPT_MESSAGE, and consumers fail on it or skip it. Either the bytes changed
    after they were written, or the writer never computed the CRC.

    ## Usual cause
    A proxy or gateway that changes a batch (attributes, timestamps, producer id, records) and keeps the CRC, a buffer
    that is overwritten while it is sent, or faulty disk or network hardware. If the CRC belongs to the same records
    with another timestamp type, transactional or control bit, or without a producer, the finding says so.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"crc": 305419896, "crc_valid": false, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    The base offset and the leader epoch are outside the CRC: a broker sets them without recomputing it:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 8, "records": [
      {"base_offset": 7, "partition_leader_epoch": 3, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/redpanda-data/redpanda/issues/6631
    https://github.com/redpanda-data/redpanda/pull/27671
    https://github.com/twmb/franz-go/issues/716
    https://github.com/aio-libs/aiokafka/issues/321
    https://github.com/AutoMQ/automq/issues/560
    https://github.com/apache/kafka/issues/7124
    https://github.com/confluentinc/librdkafka/issues/1056
    """
    crc_faults = faults_of_kind(event, connection, FaultKind.CRC)
    if crc_faults and event.message is not None and inner_request(event.message):
        return  # M009: the bytes that follow do not belong to the batch
    for part, fault in crc_faults:
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "find where the bytes changed after the CRC was computed: compare the batch on both sides of every hop",
        )
