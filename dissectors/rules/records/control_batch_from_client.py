"""R023: a control batch from a client."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.records.formats import CONTROL
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, problem_location, record_data, severity_in_traffic
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_ATTRIBUTES_OFFSET = 21


@rule(
    "R023",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="client",
)
def control_batch_from_client(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no client produces a control batch.

    ## Why it matters
    Brokers use control batches to mark the end of transactions. Kafka refuses one from a client with INVALID_RECORD. A
    server that accepts it lets anybody commit or abort transactions, and consumers do not see its records.

    ## Usual cause
    Bit 5 of the attributes is set by mistake, or batches are copied from a fetch together with the markers between
    them.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"is_control": true, "records": [{"key": "ab", "value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v9 {"transactional_id": "tx", "acks": -1, "topic_data": [{"name": "orders", "partition_data": [
      {"records": [{"is_transactional": true, "producer_id": 5, "producer_epoch": 0, "base_sequence": 0,
        "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#controlbatch
    """
    data = record_data(event, connection)
    if not data.attributes & CONTROL:
        return
    for part in data.parts:
        for index, batch in enumerate(part.batches):
            if batch.magic == 2 and batch.attributes & CONTROL:
                start = batch.start + _ATTRIBUTES_OFFSET
                yield Problem(
                    f"{label(part.topic_partition, connection)}: a client sends a control batch, which only brokers "
                    "write",
                    **problem_location(event, part, start, start + 2, str(index), "attributes"),
                    hint="clear bit 5 of the attributes; use EndTxn to end transactions",
                    severity=severity_in_traffic(connection),
                    cause=part.topic_partition[0],
                )
                break
