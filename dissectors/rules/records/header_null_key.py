"""R020: a record header without a key."""

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
    "R020",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def header_null_key(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that every record header has a key.

    ## Why it matters
    A header's value may be null, but not its key: the Java client refuses the whole batch, and others crash or lose
    the header.

    ## Usual cause
    The application sets a header without a name, swaps key and value, or writes -1 for an empty key.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "00000000000000000000003cffffffff02b607b3250000000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff000000011400000001026102010276"}]}]}
    ```

    ## Look-alikes
    An empty key and an empty value:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "headers": [{"key": "", "value": ""}]}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/134
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.HEADER_KEY):
        yield fault_problem(event, connection, part, fault, "give the header a key; an empty key has length 0")
