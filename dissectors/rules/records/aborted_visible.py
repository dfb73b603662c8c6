"""R025: records of an aborted transaction that a read_committed consumer cannot filter out."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records import decode
from dissectors.records.formats import CONTROL, TRANSACTIONAL
from dissectors.records.record_checks import BatchSpan
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import PartitionData, RecordData, problem_location, record_data
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_READ_COMMITTED = 1


@rule(
    "R025",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="broker",
)
def aborted_visible(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    r"""Checks that a read_committed fetch lists the aborted transactions whose records it returns.

    ## Why it matters
    The broker sends aborted records too, and the consumer filters them out with the `aborted_transactions` list. The
    application sees the records of any transaction missing from that list as if they were committed.

    ## Usual cause
    A server that keeps no index of aborted transactions and leaves the list empty or null.

    ## Example
    ```story
    > Fetch v12 {"isolation_level": 1, "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 2, "last_stable_offset": 2, "records": [
      {"is_transactional": true, "producer_id": 5, "producer_epoch": 0, "records": [{"value": "a"}]},
      {"base_offset": 1, "is_transactional": true, "is_control": true, "producer_id": 5, "producer_epoch": 0,
       "records": [{"offset": 1, "key": "\u0000\u0000\u0000\u0000", "value": ""}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Fetch v12 {"isolation_level": 1, "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 2, "last_stable_offset": 2,
      "aborted_transactions": [{"producer_id": 5, "first_offset": 0}], "records": [
      {"is_transactional": true, "producer_id": 5, "producer_epoch": 0, "records": [{"value": "a"}]},
      {"base_offset": 1, "is_transactional": true, "is_control": true, "producer_id": 5, "producer_epoch": 0,
       "records": [{"offset": 1, "key": "\u0000\u0000\u0000\u0000", "value": ""}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#controlbatch
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    """
    data = record_data(event, connection)
    if (
        not data.attributes & CONTROL
        or event.request_body is None
        or event.request_body.get("isolation_level") != _READ_COMMITTED
    ):
        return
    for part in data.parts:
        unlisted = _find_unlisted_batch(part)
        if unlisted is not None:
            index, batch = unlisted
            yield Problem(
                f"{label(part.topic_partition, connection)}: the batch at offset {batch.base_offset} belongs to a "
                f"transaction that producer {batch.producer_id} aborted, but aborted_transactions of this "
                "read_committed fetch does not list it",
                **problem_location(event, part, batch.start, batch.end, str(index)),
                hint="list every aborted transaction that overlaps the fetched range, with its first offset",
                cause=part.topic_partition[0],
            )


def _find_unlisted_batch(part: PartitionData) -> tuple[int, BatchSpan] | None:
    """Return index and span of the first batch of an aborted transaction that is not listed; None if all are listed."""
    listed = part.row.get("aborted_transactions") or ()
    open_batches: dict[int, tuple[int, BatchSpan]] = {}
    for index, batch in enumerate(part.batches):
        if batch.magic != 2 or not batch.attributes & TRANSACTIONAL:
            continue
        if not batch.attributes & CONTROL:
            open_batches.setdefault(batch.producer_id, (index, batch))
            continue
        first_entry = open_batches.pop(batch.producer_id, None)
        if first_entry is None or _marker_type(part, batch) != "ABORT":
            continue
        transactions = (transaction for transaction in listed if transaction.get("producer_id") == batch.producer_id)
        if not any(transaction.get("first_offset", 0) <= first_entry[1].base_offset for transaction in transactions):
            return first_entry
    return None


def _marker_type(part: PartitionData, batch: BatchSpan) -> str:
    [decoded_batch, *_] = decode(part.row["records"][batch.start : batch.end])
    records = decoded_batch.get("records") or ()
    return next((record["control"]["type"] for record in records if "control" in record), "UNKNOWN")
