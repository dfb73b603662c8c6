"""H005: a retry without idempotence has changed the order of records."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.partitions import label
from dissectors.trackers.producers import Producers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: A batch with the same bytes that follows sooner than this (ns) may be a different batch.
_MIN_RETRY_DELAY = 1_000_000


@rule(
    "H005",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.RESENT,
    needs=(Producers,),
    since="0.1",
    blame="client",
)
def order_changed_by_retry(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a retry does not put records after later ones of the same partition.

    ## Why it matters
    Consumers read records in the order in which the broker accepted them: after such a retry, an older value of a key
    comes last and wins.

    ## Usual cause
    Several requests are in flight without idempotence: one fails, the next ones are accepted, and the first is repeated
    (H004). S034 covers the repetition of a batch that was already accepted.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "b", "timestamp": 1767225600001}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"base_offset": 5}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    ```

    ## Look-alikes
    All batches are repeated in their original order:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "b", "timestamp": 1767225600001}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": "b", "timestamp": 1767225600001}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_max.in.flight.requests.per.connection
    """
    producers = connection.run.state(Producers)
    for topic_partition, batch, _, attempt, path in producers.resent:
        if batch.producer_id >= 0 or event.at - attempt.at < _MIN_RETRY_DELAY:
            continue
        if attempt.answered and not attempt.refused.get(topic_partition):
            continue  # S034
        if later_count := producers.count_accepted_since(connection.server, topic_partition, attempt):
            yield Problem(
                f"{client_label(connection)} sends a batch for {label(topic_partition, connection)} again, which"
                f" {attempt.outcome(topic_partition)}, after {later_count} later "
                f"{'batches were' if later_count > 1 else 'batch was'}"
                " accepted: its records come after theirs",
                **locate(event.message, *path),
                hint="set enable.idempotence=true, or max.in.flight.requests.per.connection=1",
                cause=topic_partition[0],
            )
