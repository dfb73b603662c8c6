"""Q003: records of a share group that were delivered as often as allowed, and never again."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.share_acquisitions import DELIVERIES, ShareAcquisitions, group_member_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "Q003",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("ShareFetch",),
    only=FrameFlags.IRREGULAR,
    needs=(ShareAcquisitions,),
    limits=(DELIVERIES,),
    since="0.1",
    blame="client",
)
def delivery_limit(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that records of a share group are processed before their last delivery.

    ## Why it matters
    A record that is released, or whose lock runs out, at its last delivery (share.delivery.count.limit, 5 by default)
    is archived: the group never gets it again. It is lost for the group, unless the group has a dead letter queue
    (KIP-1191). Kafka's share frames do not show which of the two happened, so the finding names both.

    ## Usual cause
    A record that the application cannot process and releases each time. A record that cannot succeed should be
    rejected, and stored for later by the application or by a dead letter queue. Or processing takes longer than the
    lock lasts.

    Reported when a member asks for more and does not get the records, although the broker delivers the lowest offsets
    first. If the group's limit is above 5, nothing is reported once a record is delivered more often.

    ## Example
    ```story
    rule Q003:deliveries=2
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 5, "delivery_count": 2}]}]}]}
    > ShareAcknowledge v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 5, "acknowledge_types": [2]}]}]}]}
    < {"responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 2, "topics": []}
    +1s
    < {"acquisition_lock_timeout_ms": 3000, "responses": []}
    ```
    The lock runs out at the last delivery:
    ```story
    rule Q003:deliveries=2
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 5, "delivery_count": 2}]}]}]}
    +4s
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": []}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 6, "last_offset": 6, "delivery_count": 1}]}]}]}
    ```

    ## Look-alikes
    A record that is accepted at its last delivery, and a limit that is higher than assumed:
    ```story
    rule Q003:deliveries=2
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 5, "delivery_count": 2}]}]}]}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 5, "acknowledge_types": [1]}]}]}]}
    +1s
    < {"acquisition_lock_timeout_ms": 3000, "responses": []}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 2, "topics": []}
    +1s
    < {"acquisition_lock_timeout_ms": 3000, "responses": []}
    ```
    ```story
    rule Q003:deliveries=2
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 0, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 5, "delivery_count": 2}]}]}]}
    > ShareAcknowledge v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 1, "topics": [{"topic_id":
      "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0, "acknowledgement_batches":
      [{"first_offset": 5, "last_offset": 5, "acknowledge_types": [2]}]}]}]}
    < {"responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [{"partition_index": 0}]}]}
    > ShareFetch v1 {"group_id": "g", "member_id": "a", "share_session_epoch": 2, "topics": []}
    < {"acquisition_lock_timeout_ms": 3000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions":
       [{"partition_index": 0, "acquired_records": [{"first_offset": 5, "last_offset": 6, "delivery_count": 3}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-932%3A+Queues+for+Kafka
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1191%3A+Dead-letter+queues+for+share+groups
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    group, _ = group_member_of(request.message.body)
    for topic_partition, archived in connection.run.state(ShareAcquisitions).archived:
        acquisition = archived.acquisition
        pronoun = "it" if acquisition.first == acquisition.last else "them"
        reason = "the lock ran out" if archived.by is None else f"{acquisition.client} released {pronoun}"
        records = (
            f"offset {acquisition.first}"
            if acquisition.first == acquisition.last
            else f"offsets {acquisition.first} to {acquisition.last}"
        )
        yield Problem(
            f"{records} of {label(topic_partition, connection)} will not be delivered again to share group {group!r}: "
            f"{reason} at delivery {acquisition.deliveries}, so the broker archived {pronoun}, or wrote {pronoun} to "
            "the group's dead letter queue",
            hint="reject records that can never be processed, instead of releasing them, and store them elsewhere "
            "(errors.deadletterqueue.topic.name of the group, KIP-1191); if processing may succeed later, raise the "
            "group's share.delivery.count.limit",
            cause=group,
            once_per=(group, topic_partition),
        )
