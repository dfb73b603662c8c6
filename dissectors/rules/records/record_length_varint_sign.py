"""R007: records in an encoding other than the one that format 2 defines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.edits import Edit
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import add_diagnosis
from dissectors.trackers.record_data import RecordData, fault_problem, faults_of_kind
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_HINT = (
    "write a record as length, attributes (one byte), timestamp delta, offset delta, key, value and headers, with "
    "zigzag varints for lengths, counts and deltas"
)


@rule(
    "R007",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def record_length_varint_sign(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that records use the format 2 encoding: zigzag varints for lengths, counts and deltas, no missing field.

    If the records of a batch cannot be read, kproxy tries other encodings: int32 or unsigned varint lengths, no header
    count, no attributes byte, and others. It reports one if it reads every record to the last byte.

    ## Why it matters
    Clients fail in different ways: some raise an error, some silently skip the batch, some fetch it forever.

    ## Usual cause
    Kafka's varints are zigzag: 0x44 is 34, not 68. The varints of many libraries are unsigned, and messages of formats
    0 and 1 had int32 lengths.

    ## Example
    Record lengths as int32:
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 2, "records":
      "0000000000000000 00000047 ffffffff 02 a6313e92 0000 00000001 0000019b76daa800 0000019b76daa800
       ffffffffffffffff ffff ffffffff 00000002
       00000007 00 00 00 01 02 61 00
       00000007 00 00 02 01 02 62 00"}]}]}
    ```

    ## Look-alikes
    ```story
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 2, "records": [
      {"records": [{"value": "a"}, {"key": "k", "value": "b", "headers": [{"key": "h", "value": "v"}]}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#record
    https://github.com/seaweedfs/seaweedfs/issues/7231
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.ENCODING):
        problem = fault_problem(event, connection, part, fault, _HINT)
        assert fault.deviation is not None
        written = fault.deviation.written
        topics, _, partitions, _ = part.path
        edit = Edit.of("record_encoding", f"{topics}[].{partitions}[].records", written=written)
        yield add_diagnosis(replace(problem, cause=f"{part.topic_partition[0]} {written}"), edit)
