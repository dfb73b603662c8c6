"""T008: offsets that are unstable although the transactions that wrote them have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions, TransactionalProducer
from dissectors.trackers.triggers import FrameFlags

#: Coordinators write the markers of a transaction within moments after they have answered EndTxn.
_MARKERS_WITHIN = 5 * SECOND

#: The location of an error in the structs of a response.
_Path = tuple[str | int, ...]


@rule(
    "T008",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("OffsetFetch",),
    only=FrameFlags.REFUSED,
    needs=(OpenTransactions,),
    since="0.1",
    blame="broker",
)
def offsets_stay_unstable(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the offsets of a group are stable soon after the transactions that wrote them have ended.

    ## Why it matters
    A consumer that requires stable offsets (KIP-447) asks again and again, and reads nothing until it gets them.

    ## Usual cause
    A coordinator that does not apply the transaction's marker to the pending offsets of the group, for example because
    it answers EndTxn before it has stored what it must complete, or after its partition has moved to another broker.
    Only transactions whose requests were observed are considered: one that was not may still be open.

    ## Example
    ```story
    2> InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    2< {"producer_id": 9001, "producer_epoch": 0}
    2> AddOffsetsToTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "group_id": "g"}
    2< {}
    2> TxnOffsetCommit v2 {"transactional_id": "pay-1", "group_id": "g", "producer_id": 9001, "producer_epoch": 0,
       "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]}
    2< {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    2> EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": true}
    2< {}
    +6s
    > OffsetFetch v7 {"group_id": "g", "require_stable": true,
      "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": -1, "error_code": 88}]}]}
    ```

    ## Look-alikes
    The transaction is open:
    ```story
    2> InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    2< {"producer_id": 9001, "producer_epoch": 0}
    2> AddOffsetsToTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "group_id": "g"}
    2< {}
    2> TxnOffsetCommit v2 {"transactional_id": "pay-1", "group_id": "g", "producer_id": 9001, "producer_epoch": 0,
       "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]}
    2< {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +6s
    > OffsetFetch v7 {"group_id": "g", "require_stable": true,
      "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": -1, "error_code": 88}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-447%3A+Producer+scalability+for+exactly+once+semantics
    https://github.com/redpanda-data/redpanda/issues/5543
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or message.diagnosis is not None:
        return
    for group, path in _unstable_groups(request_body, message.body):
        producer = _latest_ended(group, connection)
        if producer is None or producer.ended_at is None or event.at - producer.ended_at < _MARKERS_WITHIN:
            continue
        ending = "committed" if producer.outcome else "aborted"
        yield Problem(
            f"offsets of group {group!r} are unstable (UNSTABLE_OFFSET_COMMIT), but no observed transaction with its"
            f" offsets is open: the latest, of transactional id {producer.name!r} (producer {producer.producer_id},"
            f" epoch {producer.epoch}), was {ending} {duration(event.at - producer.ended_at)} ago",
            **locate(message, *path),
            hint="fix the broker: when a transaction ends, it must complete the pending offsets of the group",
            cause=group,
        )


def _unstable_groups(request_body: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[tuple[str, _Path]]:
    """Yield the groups with an unstable offset, and the path of the first such error."""
    groups: list[tuple[str, Mapping[str, Any], _Path]] = [
        (group.get("group_id") or "", group, ("groups", i)) for i, group in enumerate(body.get("groups") or ())
    ]
    for group_id, group, prefix in groups or [(request_body.get("group_id") or "", body, ())]:
        path = next(
            (
                (*prefix, "topics", i, "partitions", j, "error_code")
                for i, topic in enumerate(group.get("topics") or ())
                for j, partition in enumerate(topic.get("partitions") or ())
                if partition.get("error_code") == Error.UNSTABLE_OFFSET_COMMIT
            ),
            None,
        )
        if path is not None:
            yield group_id, path


def _latest_ended(group: str, connection: ConnectionState) -> TransactionalProducer | None:
    """Return the producer of the group's offsets whose transaction ended last; None if one is open or unobserved."""
    producers = [
        producer
        for producer in connection.run.state(OpenTransactions).producers.values()
        if any(offset_group == group for offset_group, _ in producer.offsets)
    ]
    if not all(producer.begun_at is None and producer.is_fully_observed for producer in producers):
        return None
    return max(producers, key=lambda producer: producer.ended_at or 0, default=None)
