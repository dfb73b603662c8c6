"""S051: a consumer that does not get past a control batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.control import are_all_control_batches
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import is_follower
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_REPEATS = 5
#: How soon a stuck consumer fetches again (ns). A consumer that returns later may have other reasons.
_REFETCH_WITHIN = 10_000_000_000


class _ControlBatches:
    """Partitions of one connection that got only control batches: fetch offset, number of fetches, time of the last."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, tuple[int, int, int]] = {}


@rule(
    "S051",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.STARVED,
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def control_batch_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a consumer continues after a control batch, the marker at the end of a transaction.

    ## Why it matters
    The consumer fetches the same marker forever: its lag grows, and it keeps itself and the broker busy.

    ## Usual cause
    A client that drops control records, as it must, and takes its next offset from the last record that it kept. If a
    response has nothing but the marker, there is no such record.

    ## Example
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "records": [
       {"base_offset": 5, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "records": [
       {"base_offset": 5, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "records": [
       {"base_offset": 5, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "records": [
       {"base_offset": 5, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "records": [
       {"base_offset": 5, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    ```

    ## Look-alikes
    A consumer that continues after each marker:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 10, "records": [
       {"base_offset": 5, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 10, "records": [
       {"base_offset": 6, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 10, "records": [
       {"base_offset": 7, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 00", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 8}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 10, "records": [
       {"base_offset": 8, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 9}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 10, "records": [
       {"base_offset": 9, "is_control": true, "is_transactional": true, "producer_id": 9, "producer_epoch": 0,
        "records": [{"key": "00 00 00 01", "value": "00 00 00 00 00 00"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#controlbatch
    https://github.com/tulios/kafkajs/issues/403
    https://github.com/kafkaex/kafka_ex/pull/557
    """
    request_body, message = event.request_body, event.message
    if request_body is None or message is None or connection.state(Fetches).is_response_empty:
        return
    offsets: Mapping[TopicPartition, int] | None = None
    state = connection.state(_ControlBatches)
    previous, state.partitions = state.partitions, {}
    for i, topic in enumerate(message.body.get("responses") or ()):
        for j, partition in enumerate(topic.get("partitions") or ()):
            records = partition.get("records")
            if not records or not are_all_control_batches(records) or is_follower(request_body):
                continue
            offsets = connection.state(Fetches).sessions.offsets(event.request) if offsets is None else offsets
            topic_partition = topic_name_or_id(topic), partition.get("partition_index", 0)
            if topic_partition not in offsets:
                continue
            offset, times = offsets[topic_partition], 1
            offset_before, times_before, fetched_at = previous.get(topic_partition, (-1, 0, 0))
            if offset_before == offset and event.at - fetched_at < _REFETCH_WITHIN:
                times += times_before
            state.partitions[topic_partition] = offset, times, event.at
            if times == _REPEATS:
                yield Problem(
                    f"{times} fetches in a row from offset {offset} of {label(topic_partition, connection)} got only a "
                    "control batch, which the consumer does not pass",
                    **locate(message, "responses", i, "partitions", j, "records"),
                    hint="upgrade the client: it must continue after the batch, although no record of it is for the "
                    "application",
                    expected=f"a fetch from offset {_next_offset(records)}",
                    got=f"offset {offset}",
                    cause=topic_partition[0],
                )


def _next_offset(records: Any) -> int:
    """Return the offset after the first batch."""
    return int.from_bytes(records[:8], "big", signed=True) + int.from_bytes(records[23:27], "big", signed=True) + 1
