"""Q001: an acknowledgement that is refused because the member no longer has a lock on the records."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.partitions import label
from dissectors.trackers.share_acquisitions import (
    APIS,
    AcknowledgedRange,
    AcknowledgeType,
    AcquiredPartition,
    Acquisition,
    EndedAcquisition,
    ShareAcquisitions,
    acknowledge_errors,
    acknowledgements,
    group_member_of,
)
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import client_address_label
from dissectors.trackers.triggers import FrameFlags

_PAST_TENSES = {
    AcknowledgeType.GAP: "skipped",
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}


@rule(
    "Q001",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=APIS,
    only=FrameFlags.REFUSED,
    needs=(ShareAcquisitions,),
    since="0.1",
    blame="client",
)
def acknowledged_late(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that members of a share group acknowledge records while they hold them, and only once.

    ## Why it matters
    A member holds the records that it has acquired until their lock runs out (share.record.lock.duration.ms, 30 s by
    default). Then the broker delivers them again, to any member, and refuses the acknowledgement with
    INVALID_RECORD_STATE: the records are processed twice, and each time their delivery count grows, until they are
    archived.

    ## Usual cause
    An application that works longer on the records of one poll than the lock lasts, or that acknowledges a record
    twice. The message says how long the member had the records, when the lock ran out, and who has them now.

    ## Example
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 1}]}]}]}
    +4s
    2> ShareFetch v1 {"group_id": "g", "member_id": "b", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    2< {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 2}]}]}]}
    +1s
    > ShareAcknowledge v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 9, "acknowledge_types": [1]}]}]}]}
    < {"responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "error_code": 121}]}]}
    ```

    ## Look-alikes
    An acknowledgement in time:
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 1}]}]}]}
    +2s
    > ShareAcknowledge v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 9, "acknowledge_types": [1]}]}]}]}
    < {"responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    ```
    A lock that was renewed (KIP-1222), so that something else is wrong, and E001 reports the error:
    ```story
    > ShareFetch v2 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 1}]}]}]}
    +2s
    > ShareAcknowledge v2 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "is_renew_ack": true, "topics":
      [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 9, "acknowledge_types": [4]}]}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0}]}]}
    +2s
    > ShareAcknowledge v2 {"group_id": "g", "member_id": "a", "share_session_epoch": 2, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 9, "acknowledge_types": [1]}]}]}]}
    < {"responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "error_code": 121}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-932%3A+Queues+for+Kafka
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1222%3A+Acquisition+lock+timeout+renewal+in+share+consumer+explicit+mode
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    refused = acknowledge_errors(message.body)
    request_body, tracker = request.message.body, connection.run.state(ShareAcquisitions)
    group, member = group_member_of(request_body)
    for acknowledgement in acknowledgements(request_body):
        partition = tracker.partitions.get((group, acknowledgement.topic_partition))
        if partition is None or refused.get(acknowledgement.topic_partition) != Error.INVALID_RECORD_STATE:
            continue
        if reason := _refusal_reason(acknowledgement, partition, member, event.at):
            yield Problem(
                f"{message.api} of {client_address_label(connection)} was refused for {_offsets_text(acknowledgement)} "
                f"of {label(acknowledgement.topic_partition, connection)} in share group {group!r} "
                f"(INVALID_RECORD_STATE): {reason}",
                **locate(message, *_error_path(event, acknowledgement)),
                hint="process fewer records per poll (max.poll.records), renew the locks meanwhile "
                "(AcknowledgeType.RENEW, KIP-1222), or raise the group's share.record.lock.duration.ms"
                if "ran out" in reason
                else "acknowledge each record once",
                cause=group,
            )


def _refusal_reason(refused: AcknowledgedRange, partition: AcquiredPartition, member: str, at: int) -> str:
    """Return why a member does not hold the records that it acknowledges; empty if that is unknown."""
    current_acquisitions = [
        acquisition for acquisition in partition.held if acquisition.covers(refused.first, refused.last)
    ]
    ended = [
        acquisition for acquisition in partition.ended if acquisition.acquisition.covers(refused.first, refused.last)
    ]
    own_ended = [acquisition for acquisition in ended if acquisition.acquisition.member == member]
    if own_ended and own_ended[-1].by is not None:
        return (
            f"it had {_PAST_TENSES.get(own_ended[-1].by, 'acknowledged')} them {duration(at - own_ended[-1].at)} before"
        )
    # An application acknowledges the oldest delivery: a client may have received the records again in the meantime.
    last_acknowledged = max(
        (index for index, ended_acquisition in enumerate(own_ended) if ended_acquisition.by is not None), default=-1
    )
    own_acquisitions = [entry.acquisition for entry in own_ended[last_acknowledged + 1 :]] + [
        entry for entry in current_acquisitions if entry.member == member
    ]
    if not own_acquisitions:
        holder = next(iter(current_acquisitions), None)
        return f"{holder.client} has them since {duration(at - holder.at)}, not this member" if holder else ""
    lock_ended_at = own_acquisitions[0].until
    if lock_ended_at is None or lock_ended_at > at:
        return ""
    return (
        f"its lock ran out {duration(at - lock_ended_at)} earlier, {duration(lock_ended_at - own_acquisitions[0].at)} "
        f"after it got them; {_later_delivery_text(current_acquisitions, own_acquisitions[0], ended, at)}"
    )


def _later_delivery_text(
    current_acquisitions: list[Acquisition], expired: Acquisition, ended: list[EndedAcquisition], at: int
) -> str:
    """Return a clause that says which member received the records later."""
    latest = current_acquisitions[-1] if current_acquisitions else None
    if latest is not None and latest is not expired:
        is_same_member = latest.member == expired.member
        event = "they were delivered to it again" if is_same_member else f"{latest.client} received them"
        return f"{event} {duration(at - latest.at)} earlier (delivery {latest.deliveries})"
    later = [entry.acquisition for entry in ended if entry.acquisition.at > expired.at]
    if later:
        return f"{later[-1].client} has received them since (delivery {later[-1].deliveries})"
    return "no member has received them since"


def _offsets_text(refused: AcknowledgedRange) -> str:
    is_single = refused.first == refused.last
    return f"offset {refused.first}" if is_single else f"offsets {refused.first} to {refused.last}"


def _error_path(event: ResponseReceived, refused: AcknowledgedRange) -> tuple[str | int, ...]:
    """Return the path of the error code in the response."""
    assert event.message is not None
    for i, topic in enumerate(event.message.body.get("responses") or ()):
        for j, row in enumerate(topic.get("partitions") or ()):
            if ((topic.get("topic_id") or ""), row.get("partition_index", 0)) == refused.topic_partition:
                field = "acknowledge_error_code" if "acknowledge_error_code" in row else "error_code"
                return ("responses", i, "partitions", j, field)
    return ()
