"""What APIs do for a group and what errors mean for a member, and where to look when a consumer hangs.

Source: https://kafka.apache.org/protocol#protocol_error_codes, GroupCoordinator and GroupMetadataManager of Kafka 4.
"""

from __future__ import annotations

from typing import NamedTuple

from kproxy.groups.model import EventKind, Protocol

#: What APIs do for a group.
KINDS = {
    "JoinGroup": EventKind.JOIN,
    "SyncGroup": EventKind.SYNC,
    "Heartbeat": EventKind.HEARTBEAT,
    "LeaveGroup": EventKind.LEAVE,
    "OffsetCommit": EventKind.COMMIT,
    "TxnOffsetCommit": EventKind.COMMIT,
    "ShareAcknowledge": EventKind.COMMIT,
    "OffsetFetch": EventKind.OFFSETS,
    "FindCoordinator": EventKind.COORDINATOR,
    "ConsumerGroupHeartbeat": EventKind.HEARTBEAT,
    "ShareGroupHeartbeat": EventKind.HEARTBEAT,
    "StreamsGroupHeartbeat": EventKind.HEARTBEAT,
}

#: The protocol of the groups that speak by them; the generation of all but the classic one is a member's epoch
#: (KIP-848, KIP-932, KIP-1071).
PROTOCOLS = {
    "JoinGroup": Protocol.CLASSIC,
    "SyncGroup": Protocol.CLASSIC,
    "Heartbeat": Protocol.CLASSIC,
    "ConsumerGroupHeartbeat": Protocol.CONSUMER,
    "ShareGroupHeartbeat": Protocol.SHARE,
    "StreamsGroupHeartbeat": Protocol.STREAMS,
}


class Meaning(NamedTuple):
    """Behind how many refusals in a row it is told (`times`), why the member is refused, where to look."""

    times: int
    why: str
    look: str


#: Part of how groups work: a member is given its id, or told to join again.
ORDINARY = frozenset({"MEMBER_ID_REQUIRED"})
REJOIN = "REBALANCE_IN_PROGRESS"

#: The coordinator has gone on without the member.
GONE = frozenset({"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "ILLEGAL_GENERATION",
                  "UNRELEASED_INSTANCE_ID"})  # fmt: skip
FENCED = frozenset({"FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID"})

#: The broker that was asked is not the coordinator, or not yet.
DENIED = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})

_OFFSETS = "check that __consumer_offsets exists and each of its partitions has a leader; a single broker needs "
_POLL = "check how long it works between two polls (max.poll.interval.ms), and what blocks the process ("

MEANINGS = {
    "UNKNOWN_MEMBER_ID": Meaning(
        1,
        "the coordinator removed it from the group, or no longer knows it; other members have its partitions",
        _POLL + "session.timeout.ms); a client that keeps using the same member id never gets back in",
    ),
    "ILLEGAL_GENERATION": Meaning(3, "the group moved to another generation without it", _POLL + "session.timeout.ms)"),
    "FENCED_INSTANCE_ID": Meaning(
        1,
        "another process joined with its group.instance.id, and this one is fenced",
        "give every process its own group.instance.id; check whether two copies of it run",
    ),
    "UNRELEASED_INSTANCE_ID": Meaning(
        1,
        "another process still holds its group.instance.id",
        "give every process its own group.instance.id; otherwise wait until the other's session expires",
    ),
    "FENCED_MEMBER_EPOCH": Meaning(
        1,
        "the coordinator revoked its partitions, because it did not give them up in time or its epoch is wrong; "
        "it must rejoin with epoch 0",
        "check what it does between two polls: partitions are revoked in poll()",
    ),
    "STALE_MEMBER_EPOCH": Meaning(
        3, "it uses an old epoch", "it must commit with the epoch of the last heartbeat response"
    ),
    "INCONSISTENT_GROUP_PROTOCOL": Meaning(
        1,
        "it shares no assignor or protocol type with all other members",
        "compare partition.assignment.strategy and group.protocol of all members; another application may use the "
        "same group.id",
    ),
    "GROUP_MAX_SIZE_REACHED": Meaning(
        1, "the group is full", "check the broker's group.max.size; members that disappeared without leaving count too"
    ),
    "GROUP_AUTHORIZATION_FAILED": Meaning(
        1, "it is not allowed to use this group id", "check the ACLs of its principal: READ on the group"
    ),
    "TOPIC_AUTHORIZATION_FAILED": Meaning(
        1,
        "it is not allowed to read one of its topics",
        "check the ACLs of its principal: READ and DESCRIBE on the topic",
    ),
    "GROUP_ID_NOT_FOUND": Meaning(
        3, "the coordinator does not know the group", "the group was never joined, or was deleted"
    ),
    "INVALID_SESSION_TIMEOUT": Meaning(
        1,
        "the broker does not allow its session timeout",
        "compare session.timeout.ms with the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    "UNSUPPORTED_ASSIGNOR": Meaning(
        1, "the broker does not have the requested assignor", "check the client's group.remote.assignor"
    ),
    "UNSUPPORTED_VERSION": Meaning(
        1, "the broker does not support its request", "check the client's group.protocol and the broker's version"
    ),
    "NOT_COORDINATOR": Meaning(
        2,
        "the broker it asks is not the group's coordinator",
        "check whether FindCoordinator and the broker agree: brokers may disagree about the leader of a partition of "
        "__consumer_offsets, or an address may lead to another broker",
    ),
    "COORDINATOR_NOT_AVAILABLE": Meaning(
        2, "the group has no coordinator", _OFFSETS + "offsets.topic.replication.factor=1"
    ),
    "COORDINATOR_LOAD_IN_PROGRESS": Meaning(
        2,
        "its coordinator is still loading the group from __consumer_offsets",
        "the coordinator moved; if loading takes minutes, a partition of __consumer_offsets is not compacted",
    ),
}

_OTHER = Meaning(3, "", "check the bytes of the request and its response, and the broker's log")


def meaning(error: str) -> Meaning:
    """What an error means; of one that says nothing special about groups, where else to look."""
    return MEANINGS.get(error, _OTHER)
