"""S064: a coordinator that fences a member that joins with epoch 0."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Reported from this many refusals on.
THRESHOLD = 2

_JOIN_EPOCH = 0
_FENCING_ERRORS = (Error.FENCED_MEMBER_EPOCH, Error.STALE_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID)


class _RefusedJoins(Recurrence):
    """The refused joins of each member."""


@rule(
    "S064",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"),
    only=FrameFlags.REFUSED,
    since="0.1",
    blame="broker",
)
def rejoin_fenced(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a coordinator accepts a member that joins with epoch 0.

    ## Why it matters
    A member that was fenced gives up its partitions and joins with epoch 0. That is its only way back: if the
    coordinator fences this too, the member is in a loop until its session expires on the coordinator.

    ## Usual cause
    A coordinator that compares epoch 0 with the epoch that it has recorded for the member, as it does for other
    heartbeats (Kafka 4.0 and 4.1, KAFKA-19233). KIP-848 allows epoch 0 at any time: the member rejoins. Restarting the
    client with another member id helps until the broker is upgraded.

    ## Example
    ```story
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60000,
      "subscribed_topic_names": ["t"], "topic_partitions": []}
    < {"error_code": 110, "member_id": "m"}
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60000,
      "subscribed_topic_names": ["t"], "topic_partitions": []}
    < {"error_code": 110, "member_id": "m"}
    ```

    ## Look-alikes
    A member is fenced, and joins with epoch 0:
    ```story
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 5}
    < {"error_code": 110, "member_id": "m"}
    > ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60000,
      "subscribed_topic_names": ["t"], "topic_partitions": []}
    < {"member_id": "m", "member_epoch": 7, "heartbeat_interval_ms": 5000, "assignment": {"topic_partitions": []}}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    https://github.com/apache/kafka/pull/21305
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or message.diagnosis is not None:
        return
    code = message.body.get("error_code", 0)
    if code not in _FENCING_ERRORS or request_body.get("member_epoch") != _JOIN_EPOCH:
        return
    group, member = request_body.get("group_id", ""), request_body.get("member_id", "")
    times = connection.run.state(_RefusedJoins).count((connection.server, group, member), event.at)
    if times < THRESHOLD:
        return
    yield Problem(
        f"{times} joins of member {member!r} of group {group!r} ({message.api} with member_epoch 0) were refused "
        f"with {Error(code).name}, although the protocol allows to join with epoch 0 at any time: the broker must "
        "accept epoch 0",
        **locate(message, "error_code"),
        hint="upgrade or fix the broker; until then, restart the client with a new member id, or wait until its "
        "session expires",
        cause=group,
    )
