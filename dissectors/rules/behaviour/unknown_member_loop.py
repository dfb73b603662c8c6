"""S015: a member that keeps using its member id after UNKNOWN_MEMBER_ID."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.groups import MisledGroups
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

UNKNOWN_MEMBER_ID = Error.UNKNOWN_MEMBER_ID

#: Reported after this many consecutive refusals over this time (ns). After a session timeout, one heartbeat and one or
#: two commits are normally refused.
THRESHOLD = 5
MIN_DURATION = 3_000_000_000

MAX_MEMBERS = 10_000

_EVICTION_HINT = (
    "check why it was evicted: session.timeout.ms, max.poll.interval.ms, or a coordinator that has lost the group"
)


@dataclass(slots=True)
class _MemberRefusals:
    first_at: int
    times: int = 0


class _RefusedMembers:
    """Refusals of members since they were last accepted, by group and member id."""

    def __init__(self) -> None:
        self.by_member: BoundedDict[tuple[str, str], _MemberRefusals] = BoundedDict(MAX_MEMBERS)


@rule(
    "S015",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=(
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "OffsetCommit",
        "ConsumerGroupHeartbeat",
        "ShareGroupHeartbeat",
        "StreamsGroupHeartbeat",
    ),
    only=FrameFlags.REFUSED,
    needs=(MisledGroups,),
    since="0.1",
    blame="client",
)
def unknown_member_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a member stops using its member id after UNKNOWN_MEMBER_ID.

    ## Why it matters
    The group continued without the member: other members have its partitions, and its commits are not stored. The only
    way back is to join with an empty member id (or with epoch 0 in the consumer protocol).

    ## Usual cause
    A client that treats UNKNOWN_MEMBER_ID as retriable, an application that commits in a loop after its consumer was
    evicted, or a coordinator that forgets members before their session expires.

    ## Example
    ```story
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 25}
    +1s
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 25}
    +1s
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 25}
    +1s
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 25}
    +1s
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 25}
    ```

    ## Look-alikes
    ```story
    > Heartbeat v3 {"group_id": "g", "generation_id": 4, "member_id": "m-1"}
    < {"error_code": 25}
    > OffsetCommit v6 {"group_id": "g", "generation_id_or_member_epoch": 4, "member_id": "m-1",
                       "topics": [{"name": "t", "partitions": [{}]}]}
    < {"topics": [{"name": "t", "partitions": [{"error_code": 25}]}]}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"error_code": 79, "member_id": "m-2"}
    ```

    ## Sources
    https://github.com/aio-libs/aiokafka/issues/727
    https://github.com/aio-libs/aiokafka/issues/575
    https://github.com/segmentio/kafka-go/issues/781
    """
    message, request_body = event.message, event.request_body
    if (
        message is None
        or request_body is None
        or message.diagnosis is not None
        or not (member := request_body.get("member_id"))
    ):
        return
    code, path = _member_error(message)
    refused = connection.run.state(_RefusedMembers).by_member
    key = (request_body.get("group_id", ""), member)
    if code != UNKNOWN_MEMBER_ID:
        if code == 0 and key in refused:
            del refused[key]
            if not refused:
                connection.run.unsubscribe("S015")
        return
    connection.run.subscribe("S015")
    refusals = refused.touch(key, lambda: _MemberRefusals(event.at))
    refusals.times += 1
    if refusals.times < THRESHOLD or event.at - refusals.first_at < MIN_DURATION:
        return
    if connection.run.state(MisledGroups).contains(key[0], event.at):
        return
    behaviour, hint = _advice(message.api, request_body)
    yield Problem(
        f"member {member!r} of group {key[0]!r} got UNKNOWN_MEMBER_ID {refusals.times} times in "
        f"{(event.at - refusals.first_at) / 1e9:.1f} s, most recently for {message.api}, but keeps {behaviour}",
        **locate(message, *path),
        hint=hint,
        cause=key[0],
    )


def _advice(api: str, request_body: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the member keeps doing, and how it gets back into its group."""
    if not api.endswith("GroupHeartbeat"):
        return "using that member id", f"rejoin with an empty member_id; {_EVICTION_HINT}"
    epoch = request_body.get("member_epoch", 0)
    if epoch >= 0:
        return f"sending member_epoch {epoch}", f"rejoin with member_epoch 0 and all fields; {_EVICTION_HINT}"
    joins = ", and its other fields are those of a join" if request_body.get("subscribed_topic_names") else ""
    return (
        f"sending member_epoch {epoch}, which leaves the group{joins}",
        "fix the client: it joins with member_epoch 0",
    )


def _member_error(message: Message) -> tuple[int, tuple[str | int, ...]]:
    """Return the error code that concerns the member, and its path."""
    if message.api != "OffsetCommit":
        return message.body["error_code"], ("error_code",)
    for index, topic in enumerate(message.body["topics"] or ()):
        for partition_index, partition in enumerate(topic["partitions"] or ()):
            return partition["error_code"], ("topics", index, "partitions", partition_index, "error_code")
    return 0, ()
