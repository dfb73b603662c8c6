"""R011: compressed records that do not decompress."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.record_data import RecordData, fault_problem, faults_of_kind
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R011",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def decompress_failed(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that compressed records match the codec in the batch attributes and are complete.

    A warning if only the version numbers in the header of snappy data are wrong.

    ## Why it matters
    Nobody can read the records: brokers refuse them with CORRUPT_MESSAGE, and consumers stop at their offset. Wrong
    versions in a snappy header matter only to clients that check them: they take the data for raw snappy.

    ## Usual cause
    Snappy or LZ4 in a framing other than Kafka's, attributes that name a codec other than the one that was used (zstd,
    which is 4, masked with 3 is 0), or a payload that was truncated or compressed twice.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000039ffffffff02312ae3ae0001000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff000000010e00000001026100"}]}]}
    ```

    Records compressed with zstd, in a batch whose attributes say that they are not compressed:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000042ffffffff026688a72c0000000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff0000000128b52ffd20084100000e00000001026100"}]}]}
    ```

    Snappy with little-endian versions in its header:
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records":
      "00000000000000000000004fffffffff024c9c790a0002000000000000019b76daa8000000019b76daa800ffffffffffffffffffffff
      ffffff0000000182534e415050590001000000010000000000000a081c0e00000001026100"}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"compression": "snappy", "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"compression": "gzip", "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/149
    https://github.com/dpkp/kafka-python/issues/2414
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/59
    https://github.com/tulios/kafkajs/issues/911
    https://github.com/dpkp/kafka-python/issues/718
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.SNAPPY_HEADER):
        hint = "write the versions in the snappy header as big-endian numbers, as snappy-java does"
        yield fault_problem(event, connection, part, fault, hint, Severity.WARNING)
    for part, fault in faults_of_kind(event, connection, FaultKind.COMPRESSION):
        if fault.path[-1] == "attributes":
            hint = (
                f"set the codec in the attributes to {fault.expected}: it has three bits, so mask it with 7; or do not "
                "compress the records"
            )
        elif fault.expected == "records":
            hint = "compress the records once: a batch that is sent again is compressed already"
        else:
            hint = (
                "compress the records with the codec in the low three bits of the attributes, in Kafka's framing, "
                "or set them to 0"
            )
        yield fault_problem(event, connection, part, fault, hint)
