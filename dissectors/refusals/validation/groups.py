"""Checks of requests to group coordinators.

Sources: GroupCoordinatorService.java, GroupMetadataManager.throwIfConsumerGroupHeartbeatRequestIsInvalid and its
siblings, KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.refusals.validation.violation import Values, Violation, is_blank, validates, value_text
from dissectors.schemas.codes import Error

_INVALID = Error.INVALID_REQUEST
#: From this version on, a consumer generates its member id itself (KIP-1082).
_FIRST_VERSION_WITH_CLIENT_MEMBER_ID = 1
_LEAVE_EPOCH, _STATIC_LEAVE_EPOCH = -1, -2
_COMPLETENESS_PREMISE = "with member_epoch 0 the request must be complete"
_NAMES = {"group_id": "GroupId", "instance_id": "InstanceId", "rack_id": "RackId"}


@validates("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
def check_names(body: Values, _: int) -> Iterator[Violation]:
    """Check that no name is blank; null means none."""
    for name in _NAMES:
        if is_blank(body.get(name)):
            yield Violation(_INVALID, f"{name} is {body[name]!r}", f"set {name} to a text, or to null if it may be")


@validates("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
def check_epoch(body: Values, _: int) -> Iterator[Violation]:
    """Check the epoch: 0 joins, -1 leaves the group, -2 leaves it temporarily as a static member."""
    epoch, minimum = body.get("member_epoch", 0), _STATIC_LEAVE_EPOCH if "instance_id" in body else _LEAVE_EPOCH
    if epoch < minimum:
        yield Violation(_INVALID, f"member_epoch is {epoch}", f"use a member_epoch of {minimum} or more")
    elif epoch == _STATIC_LEAVE_EPOCH and body.get("instance_id") is None:
        yield Violation(
            _INVALID, "member_epoch is -2, but instance_id is null",
            "leave with member_epoch -1, or send instance_id (group.instance.id)",
        )  # fmt: skip


@validates("ConsumerGroupHeartbeat")
def check_consumer_heartbeat(body: Values, version: int) -> Iterator[Violation]:
    """Check that the first heartbeat of a consumer has all fields (KIP-848)."""
    epoch = body.get("member_epoch", 0)
    if is_blank(body.get("member_id", "")) and (
        version >= _FIRST_VERSION_WITH_CLIENT_MEMBER_ID or epoch > 0 or epoch == _LEAVE_EPOCH
    ):
        origin = (
            "a UUID that the client makes itself"
            if version >= _FIRST_VERSION_WITH_CLIENT_MEMBER_ID
            else "the id of the response"
        )
        yield Violation(_INVALID, "member_id is empty", f"set member_id to {origin}")
    if epoch != 0:
        return
    if body.get("rebalance_timeout_ms", -1) == -1:
        yield Violation(
            _INVALID,
            "rebalance_timeout_ms is -1",
            "send rebalance_timeout_ms (max.poll.interval.ms)",
            "",
            _COMPLETENESS_PREMISE,
        )
    if body.get("subscribed_topic_names") is None and body.get("subscribed_topic_regex") is None:
        fields = "subscribed_topic_names" + (" and subscribed_topic_regex are" if version >= 1 else " is")
        yield Violation(_INVALID, f"{fields} null", "send subscribed_topic_names", "", _COMPLETENESS_PREMISE)
    if (owned := body.get("topic_partitions")) is None or owned:
        value = "null" if owned is None else f"not empty ({len(owned)} topics)"
        yield Violation(
            _INVALID,
            f"topic_partitions is {value}",
            "send topic_partitions as an empty list",
            "",
            _COMPLETENESS_PREMISE,
        )


@validates("ShareGroupHeartbeat")
def check_share_heartbeat(body: Values, _: int) -> Iterator[Violation]:
    """Check that a share consumer generates its own member id, and sends its topics when it joins (KIP-932)."""
    if is_blank(body.get("member_id", "")):
        yield Violation(_INVALID, "member_id is empty", "set member_id to a UUID that the client makes itself")
    if body.get("member_epoch", 0) == 0 and not body.get("subscribed_topic_names"):
        yield Violation(
            _INVALID, f"subscribed_topic_names is {value_text(body.get('subscribed_topic_names'))}",
            "send subscribed_topic_names", "", _COMPLETENESS_PREMISE,
        )  # fmt: skip


@validates("StreamsGroupHeartbeat")
def check_streams_heartbeat(body: Values, _: int) -> Iterator[Violation]:
    """Check that the first heartbeat of a streams member has its topology and no tasks (KIP-1071)."""
    if is_blank(body.get("member_id", "")):
        yield Violation(_INVALID, "member_id is empty", "set member_id to a UUID that the client makes itself")
    if body.get("member_epoch", 0) != 0:
        return
    if body.get("rebalance_timeout_ms", -1) == -1:
        yield Violation(
            _INVALID,
            "rebalance_timeout_ms is -1",
            "send rebalance_timeout_ms (max.poll.interval.ms)",
            "",
            _COMPLETENESS_PREMISE,
        )
    for name in ("active_tasks", "standby_tasks", "warmup_tasks"):
        if (tasks := body.get(name)) is None or tasks:
            value = "null" if tasks is None else "not empty"
            yield Violation(_INVALID, f"{name} is {value}", f"send {name} as an empty list", "", _COMPLETENESS_PREMISE)
    if body.get("topology") is None:
        yield Violation(_INVALID, "topology is null", "send topology", "", _COMPLETENESS_PREMISE)


@validates("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "LeaveGroup", "TxnOffsetCommit", "OffsetDelete")
def check_group_id(body: Values, _: int) -> Iterator[Violation]:
    """Check that a member of a classic group has a group id."""
    if not body.get("group_id"):
        yield Violation(Error.INVALID_GROUP_ID, "group_id is empty", "set group_id (group.id)")


@validates("JoinGroup")
def check_join(body: Values, _: int) -> Iterator[Violation]:
    """Check that a new member names its protocol type and protocols."""
    if not body.get("member_id") and not body.get("protocol_type"):
        yield Violation(
            Error.INCONSISTENT_GROUP_PROTOCOL,
            "protocol_type is empty",
            "set protocol_type, for consumers to 'consumer'",
        )
    if not body.get("protocols"):
        yield Violation(
            Error.INCONSISTENT_GROUP_PROTOCOL, "protocols is empty", "send at least one protocol (assignor)"
        )


@validates("FindCoordinator")
def check_find_coordinator(body: Values, _: int) -> Iterator[Violation]:
    """Check that each key is a group, a transactional id, or a share partition."""
    kind = body.get("key_type", 0)
    if kind not in (0, 1, 2):
        yield Violation(_INVALID, f"key_type is {kind}", "use key_type 0 (group), 1 (transaction) or 2 (share)")
    for key in body.get("coordinator_keys") or [body.get("key")]:
        if not key and kind == 1:
            yield Violation(_INVALID, "the transactional id is empty", "send a transactional id that is not empty")
        elif not key and kind == 0:
            yield Violation(Error.INVALID_GROUP_ID, "the group id is empty", "set the key to the group id (group.id)")
        elif kind == 2 and str(key).count(":") < 2:
            yield Violation(
                _INVALID, f"the share key {key!r} is not group:topic-id:partition", "send group:topic-id:partition",
                str(key),
            )  # fmt: skip
