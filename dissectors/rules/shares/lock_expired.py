"""Q002: a member of a share group does not acknowledge records before their lock runs out."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.partitions import label
from dissectors.trackers.share_acquisitions import ShareAcquisitions, group_member_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import client_address_label
from dissectors.trackers.triggers import FrameFlags


@rule(
    "Q002",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("ShareFetch",),
    only=FrameFlags.IRREGULAR,
    needs=(ShareAcquisitions,),
    since="0.1",
    blame="client",
)
def lock_expired(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that members of a share group acknowledge records before their lock runs out.

    ## Why it matters
    When the acquisition lock runs out (share.record.lock.duration.ms, 30 s by default), the broker delivers the records
    again: they are processed twice, and their delivery count grows, until they are archived.

    ## Usual cause
    An application that works longer on the records of one poll than the lock lasts, that hangs, or that forgets to
    acknowledge some records in explicit mode. A member whose connection has ended is not reported.

    Reported when the records are delivered again.

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
    ```

    ## Look-alikes
    Records that were released, and records of a member that is gone:
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 1}]}]}]}
    +1s
    > ShareAcknowledge v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 9, "acknowledge_types": [2]}]}]}]}
    < {"responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    2> ShareFetch v1 {"group_id": "g", "member_id": "b", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    2< {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 2}]}]}]}
    ```
    ```story
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 1}]}]}]}
    close
    +4s
    2> ShareFetch v1 {"group_id": "g", "member_id": "b", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    2< {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 2}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-932%3A+Queues+for+Kafka
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    group, _ = group_member_of(request.message.body)
    for topic_partition, expired, redelivered in connection.run.state(ShareAcquisitions).redelivered:
        if expired.until is None or expired.until > event.at:
            continue  # the broker released them early, when the session ended
        lock_duration = duration(expired.until - expired.at)
        is_same_member = redelivered.member == expired.member
        recipient = "again to it" if is_same_member else f"to {client_address_label(connection)}"
        yield Problem(
            f"{expired.client} did not acknowledge offsets {expired.first} to {expired.last} of "
            f"{label(topic_partition, connection)} in share group {group!r} within their lock of {lock_duration}: they "
            f"were delivered {recipient}, {duration(event.at - expired.at)} after it got them (delivery "
            f"{redelivered.deliveries})",
            hint="process fewer records per poll (max.poll.records), renew the locks meanwhile "
            "(AcknowledgeType.RENEW, KIP-1222), acknowledge every record, or raise the group's "
            "share.record.lock.duration.ms",
            cause=expired.client,
            once_per=(group, expired.client),
        )
