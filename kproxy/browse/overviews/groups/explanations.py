"""What APIs do for a group and what errors mean for a member, and where to look when a consumer hangs.

Source: https://kafka.apache.org/protocol#protocol_error_codes, GroupCoordinator and GroupMetadataManager of Kafka 4.
"""

from __future__ import annotations

from typing import NamedTuple

from kproxy.browse.overviews.groups.model import EventKind, Protocol

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

_OFFSETS = "see whether __consumer_offsets exists and each of its partitions has a leader; a single broker needs "
_POLL = "see what it does between two polls, against max.poll.interval.ms, and what stops the process, against "

MEANINGS = {
    "UNKNOWN_MEMBER_ID": Meaning(
        1,
        "the coordinator has taken it out of the group, or does not know it any more; its partitions are with others",
        _POLL + "session.timeout.ms; a client that goes on with the same member id never gets back",
    ),
    "ILLEGAL_GENERATION": Meaning(
        3, "the group has gone on to another generation without it", _POLL + "session.timeout.ms"
    ),
    "FENCED_INSTANCE_ID": Meaning(
        1,
        "another process has joined with its group.instance.id, and this one is shut out",
        "give every process a group.instance.id of its own; see whether two copies of it run",
    ),
    "UNRELEASED_INSTANCE_ID": Meaning(
        1,
        "another process still holds its group.instance.id",
        "give every process a group.instance.id of its own; else wait until the session of the other has timed out",
    ),
    "FENCED_MEMBER_EPOCH": Meaning(
        1,
        "the coordinator has taken its partitions away, since it did not give them up in time or its epoch is wrong; "
        "it has to join again with epoch 0",
        "see what it does between two polls: partitions are given up in poll()",
    ),
    "STALE_MEMBER_EPOCH": Meaning(
        3, "it uses an epoch that is over", "the epoch of the last heartbeat's answer is the one to commit with"
    ),
    "INCONSISTENT_GROUP_PROTOCOL": Meaning(
        1,
        "it offers no assignor, or protocol type, that all other members have too",
        "compare partition.assignment.strategy and group.protocol of all members; another application may use the "
        "same group.id",
    ),
    "GROUP_MAX_SIZE_REACHED": Meaning(
        1, "the group is full", "group.max.size of the broker; members that went away without leaving count too"
    ),
    "GROUP_AUTHORIZATION_FAILED": Meaning(
        1, "it may not read with this group id", "the ACLs of its principal: READ on the group"
    ),
    "TOPIC_AUTHORIZATION_FAILED": Meaning(
        1, "it may not read a topic that it names", "the ACLs of its principal: READ and DESCRIBE on the topic"
    ),
    "GROUP_ID_NOT_FOUND": Meaning(
        3, "the coordinator does not know the group", "a group that never joined, or that was deleted"
    ),
    "INVALID_SESSION_TIMEOUT": Meaning(
        1,
        "its session timeout is not one that the broker allows",
        "session.timeout.ms against group.min.session.timeout.ms and group.max.session.timeout.ms of the broker",
    ),
    "UNSUPPORTED_ASSIGNOR": Meaning(
        1, "the broker does not have the assignor that it asks for", "group.remote.assignor of the client"
    ),
    "UNSUPPORTED_VERSION": Meaning(
        1, "the broker does not serve what it asks for", "group.protocol of the client, and the broker's version"
    ),
    "NOT_COORDINATOR": Meaning(
        2,
        "the broker that it asks is not the group's coordinator",
        "see whether FindCoordinator and the broker agree: brokers that disagree about the leader of a partition of "
        "__consumer_offsets, or an address that leads to another broker",
    ),
    "COORDINATOR_NOT_AVAILABLE": Meaning(
        2, "the group has no coordinator", _OFFSETS + "offsets.topic.replication.factor=1"
    ),
    "COORDINATOR_LOAD_IN_PROGRESS": Meaning(
        2,
        "its coordinator is reading the group's past from __consumer_offsets",
        "a coordinator that moved; loading for minutes means a partition of __consumer_offsets that is not compacted",
    ),
}

_OTHER = Meaning(3, "", "the bytes of the request and its answer, and the broker's log")


def meaning(error: str) -> Meaning:
    """What an error means; of one that says nothing special about groups, where else to look."""
    return MEANINGS.get(error, _OTHER)
