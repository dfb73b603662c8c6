"""M007: a batch with an extreme compression ratio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.record_data import RecordData, fault_problem, faults_of_kind
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "M007",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="client",
)
def compression_bomb(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no batch decompresses to more than 16 MiB and 100 times its compressed size.

    ## Why it matters
    A broker's limits count compressed bytes, so such a batch passes ``max.message.bytes``, and every consumer that
    reads it needs the memory. kproxy stops decompressing at that point, and checks only a sample of the batches of
    each topic.

    ## Usual cause
    An attack, or a producer that sends zeros, such as a buffer that was never filled.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "a", "partition_data": [{"records": [
      {"compression": "zstd", "records": [{"value": {"repeat": "0", "times": 20000000}}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "a", "partition_data": [{"records": [
      {"compression": "zstd", "records": [{"value": {"repeat": "0", "times": 1000000}}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#topicconfigs_max.message.bytes
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/156
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.BOMB):
        problem = fault_problem(
            event,
            connection,
            part,
            fault,
            "check what the producer sends; consumers need memory for the whole decompressed batch",
        )
        yield replace(problem, blame="client")  # even if a broker forwards it
