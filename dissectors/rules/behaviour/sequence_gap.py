"""S032: an idempotent producer whose sequence numbers have a gap."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.losses import Losses
from dissectors.trackers.partitions import label
from dissectors.trackers.producers import Attempt, Producers
from dissectors.trackers.record_data import sent_records
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_OUT_OF_ORDER_SEQUENCE_NUMBER = Error.OUT_OF_ORDER_SEQUENCE_NUMBER
_THRESHOLD = 3
#: A broker may forget a producer that has sent nothing for this time (ns).
_IDLE = 60 * SECOND
#: If kproxy missed frames of the client within this time (ns), a missing batch may have been sent.
_COMPLETE_FOR = 60 * SECOND


_GAP_HINT = "find out what happened to the missing batch; the producer must restart with a new epoch or id"
_NEW_EPOCH_HINT = (
    "fix the client: after it has raised its epoch, the sequence of each partition begins at 0, also of those that had "
    "no error"
)


class _Refusals(Recurrence):
    """Refusals per batch of a producer."""


@rule(
    "S032",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Produce",),
    only=FrameFlags.REFUSED,
    needs=(Losses, Producers),
    since="0.1",
    blame="client",
)
def sequence_gap(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that an idempotent producer sends sequence numbers without gaps, and recovers from a refused batch.

    ## Why it matters
    The broker accepts only the next sequence number of each producer and partition. After a gap, it refuses every batch
    with OUT_OF_ORDER_SEQUENCE_NUMBER until the producer restarts with a new id or epoch.

    ## Usual cause
    The producer dropped an expired batch but sent later ones, an application assigns sequence numbers from several
    threads without locking, or a client resends the refused batch forever. A broker that forgets idle producers refuses
    their next batch although there is no gap. A client that gets a new epoch but continues the numbers of the old one
    is also refused: each epoch begins at 0.

    ## Example
    A missing batch:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 5, "records": [{"value": "c"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}
    ```

    A new epoch with the numbers of the old one:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 1, "base_sequence": 2, "records": [{"value": "c"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}
    ```

    ## Look-alikes
    A new epoch, whose first batch has sequence 0; its second one is in flight when the first fails:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 1, "base_sequence": 0, "records": [{"value": "c"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 1, "base_sequence": 1, "records": [{"value": "d"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}
    ```
    The first of two batches in flight fails, so the broker cannot accept the second one yet; both are resent:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 1, "records": [{"value": "b"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 1, "records": [{"value": "b"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    https://github.com/tulios/kafkajs/issues/598
    https://github.com/apache/kafka/pull/13796
    https://github.com/apache/kafka/pull/9832
    """
    producers = connection.run.state(Producers)
    if not producers.refused or event.message is None:
        return
    is_complete = not connection.run.state(Losses).has_losses_since(event.at - _COMPLETE_FOR, connection)
    for topic_partition, code, path in producers.refused:
        records = sent_records(event.request).get(topic_partition) if code == _OUT_OF_ORDER_SEQUENCE_NUMBER else None
        if records is None or (batch := records.batch) is None:
            continue
        producer = f"producer {batch.producer_id} (epoch {batch.producer_epoch})"
        partition_name = label(topic_partition, connection)
        gap = producers.answered.gaps.get(topic_partition) if producers.answered and is_complete else None
        key = connection.server, topic_partition, batch.producer_id, batch.producer_epoch, batch.base_sequence
        times = connection.run.state(_Refusals).count(key, event.at)
        if gap is not None:
            yield Problem(
                f"{producer} sends sequence {gap.sequence} to {partition_name} but {gap.expected} is expected, so the "
                "broker refuses the batch with OUT_OF_ORDER_SEQUENCE_NUMBER",
                **locate(event.message, *path),
                hint=_NEW_EPOCH_HINT if gap.expected == 0 < batch.producer_epoch else _GAP_HINT,
                expected=f"sequence {gap.expected}",
                got=str(gap.sequence),
                cause=topic_partition[0],
            )
        elif (
            idle := _idle_time(
                producers.preceding_accepted_attempt(connection.server, topic_partition, batch), producers.answered
            )
        ) >= _IDLE:
            yield Problem(
                f"{producer} sends sequence {batch.base_sequence} to {partition_name}, the one after those that the "
                f"broker has accepted, but the broker refuses it with OUT_OF_ORDER_SEQUENCE_NUMBER: it has forgotten "
                f"the producer, which sent nothing there for {duration(idle)}",
                **locate(event.message, *path),
                hint="raise the time after which the broker forgets idle producers (producer.id.expiration.ms, "
                "transactional.id.expiration.ms); the client must get a new id or epoch with InitProducerId",
                blame="broker",
                cause=f"idle {topic_partition[0]}",
            )
        elif times >= _THRESHOLD:
            yield Problem(
                f"{producer} sends the batch with sequence {batch.base_sequence} to {partition_name} repeatedly; the "
                f"broker has refused it {times} times with OUT_OF_ORDER_SEQUENCE_NUMBER",
                **locate(event.message, *path),
                hint="the producer must get a new epoch or id (InitProducerId): restart or update it",
                cause=topic_partition[0],
            )


def _idle_time(earlier_attempt: Attempt | None, latest_attempt: Attempt | None) -> int:
    """Return the time (ns) between the requests of two batches of a producer, or 0 if one of them is unknown."""
    return 0 if earlier_attempt is None or latest_attempt is None else latest_attempt.at - earlier_attempt.at
