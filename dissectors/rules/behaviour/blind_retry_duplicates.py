"""S034: a non-idempotent producer resends a batch, which the broker cannot recognize as a duplicate."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.producers import Producers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000

#: A batch with the same bytes is a retry only if the first attempt was sent soon after the batch's last timestamp, and
#: the second some time later (ns). An application that writes a value twice gives it two timestamps.
_MAX_BATCH_AGE = 10_000 * _MS
_MIN_RETRY_DELAY = 100 * _MS


@rule(
    "S034",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.RESENT,
    needs=(Producers,),
    since="0.1",
    blame="client",
)
def blind_retry_duplicates(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a non-idempotent producer does not resend a batch that the broker has already accepted.

    ## Why it matters
    The broker writes the batch again, so consumers see its records once per attempt.

    ## Usual cause
    The client could not read the response, or timed out before it came, and retried. Without a response,
    it is unknown whether the batch was written; this is reported as info.

    ## Example
    ```story
    > Produce v3 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"base_offset": 5}]}]}
    +500ms
    > Produce v3 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    ```

    ## Look-alikes
    A retry after a retriable error, and an application that writes the same value again:
    ```story
    > Produce v3 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}
    +500ms
    > Produce v3 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    ```
    ```story
    > Produce v3 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"base_offset": 5}]}]}
    +500ms
    > Produce v3 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"records": [{"value": "a", "timestamp": 1767225600502}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_enable.idempotence
    https://github.com/confluentinc/librdkafka/issues/669
    """
    for topic_partition, batch, _, attempt, path in connection.run.state(Producers).resent:
        if batch.producer_id >= 0 or not event.expects_response or event.at - attempt.at < _MIN_RETRY_DELAY:
            continue
        if abs(attempt.at - batch.max_timestamp * _MS) > _MAX_BATCH_AGE or attempt.refused.get(topic_partition):
            continue
        seconds, partition_name = (event.at - attempt.at) / 1e9, label(topic_partition, connection)
        yield Problem(
            f"the client resends a batch to {partition_name} {seconds:.1f} s after the first attempt, which "
            f"{attempt.outcome(topic_partition)}: its records {'are' if attempt.answered else 'may be'} now duplicated",
            **locate(event.message, *path),
            severity=None if attempt.answered else Severity.INFO,
            hint="set enable.idempotence=true; check that the client can read the response and waits long "
            "enough for it",
            cause=f"{topic_partition[0]} {attempt.answered}",
        )
