"""Explain what APIs do in a group, what errors mean for a member, and what to check when a consumer hangs.

Source: https://kafka.apache.org/protocol#protocol_error_codes, GroupCoordinator and GroupMetadataManager of Kafka 4.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from dissectors import refusals
from dissectors.groups.model import SECOND, EventKind, Protocol
from dissectors.schemas.codes import Error

#: API -> what it does in a group.
EVENT_KINDS = {
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

#: API -> the group protocol that uses it. In all but the classic protocol, the generation is the member's epoch
#: (KIP-848, KIP-932, KIP-1071).
PROTOCOLS = {
    "JoinGroup": Protocol.CLASSIC,
    "SyncGroup": Protocol.CLASSIC,
    "Heartbeat": Protocol.CLASSIC,
    "ConsumerGroupHeartbeat": Protocol.CONSUMER,
    "ShareGroupHeartbeat": Protocol.SHARE,
    "StreamsGroupHeartbeat": Protocol.STREAMS,
}

#: APIs whose requests do different things depending on the epoch.
EPOCH_APIS = frozenset(api for api, protocol in PROTOCOLS.items() if protocol is not Protocol.CLASSIC)


class ErrorExplanation(NamedTuple):
    """An error: its reason, a hint on what to check, and how many consecutive refusals are reported (`threshold`).

    The refusals must also last `grace_period` ns. For commits, both limits apply only to `TRANSIENT_COMMIT_ERRORS`.
    """

    threshold: int
    reason: str
    hint: str
    grace_period: int = 0


def _error_names(*errors: Error) -> frozenset[str]:
    """Return the names of errors, as used in the facts about frames."""
    return frozenset(error.name for error in errors)


#: Errors that are no problem: a new member gets its id, and members must rejoin.
NEW_MEMBER_ID = Error.MEMBER_ID_REQUIRED.name
REJOIN = Error.REBALANCE_IN_PROGRESS.name

#: The coordinator has removed the member.
REMOVAL_ERRORS = _error_names(
    Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID, Error.FENCED_MEMBER_EPOCH, Error.ILLEGAL_GENERATION,
    Error.UNRELEASED_INSTANCE_ID,
)  # fmt: skip
FENCING_ERRORS = _error_names(Error.FENCED_INSTANCE_ID, Error.FENCED_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID)

UNKNOWN_MEMBER = Error.UNKNOWN_MEMBER_ID.name
#: The member has a generation or epoch that is no longer current.
STALE_GENERATION_ERRORS = _error_names(Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH)

#: The broker is not the coordinator, or not ready to be.
COORDINATOR_ERRORS = _error_names(
    Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS
)

#: Errors of records or a share session, after which the member continues; rules of family Q explain them.
SHARE_SESSION_ERRORS = _error_names(
    Error.INVALID_RECORD_STATE, Error.SHARE_SESSION_NOT_FOUND, Error.INVALID_SHARE_SESSION_EPOCH,
)  # fmt: skip

_OFFSETS = "check that __consumer_offsets exists and each of its partitions has a leader; a single broker needs "
_POLL = "check how long the member works between two polls (max.poll.interval.ms), and what blocks the process ("

EXPLANATIONS = {
    Error.UNKNOWN_MEMBER_ID.name: ErrorExplanation(
        1,
        "the coordinator removed it from the group, or no longer knows it; other members, if any, have its partitions",
        _POLL + "session.timeout.ms); a client that keeps using the same member id never gets back in",
    ),
    Error.ILLEGAL_GENERATION.name: ErrorExplanation(
        3, "the group moved to another generation without it", _POLL + "session.timeout.ms)"
    ),
    Error.FENCED_INSTANCE_ID.name: ErrorExplanation(
        1,
        "another process joined with its group.instance.id, and this one is fenced",
        "give every process its own group.instance.id; check whether two copies of it run",
    ),
    Error.UNRELEASED_INSTANCE_ID.name: ErrorExplanation(
        1,
        "another process still holds its group.instance.id",
        "give every process its own group.instance.id; otherwise wait until the other's session expires",
    ),
    Error.FENCED_MEMBER_EPOCH.name: ErrorExplanation(
        2,  # a member that was too slow learns of it through one such error (KIP-848)
        "the coordinator revoked its partitions, because it did not give them up in time or its epoch is wrong; "
        "it must rejoin with epoch 0",
        "check what it does between two polls: partitions are revoked in poll()",
    ),
    Error.STALE_MEMBER_EPOCH.name: ErrorExplanation(
        3, "it uses an old epoch", "the member must commit with the epoch of its last heartbeat response"
    ),
    Error.INCONSISTENT_GROUP_PROTOCOL.name: ErrorExplanation(
        1,
        "it shares no assignor or protocol type with all other members",
        "compare partition.assignment.strategy and group.protocol of all members; another application may use the "
        "same group.id",
    ),
    Error.GROUP_MAX_SIZE_REACHED.name: ErrorExplanation(
        1, "the group is full", "check the broker's group.max.size; members that disappeared without leaving count too"
    ),
    Error.GROUP_AUTHORIZATION_FAILED.name: ErrorExplanation(
        1, "it is not allowed to use this group id", "check the ACLs of its principal: READ on the group"
    ),
    Error.TOPIC_AUTHORIZATION_FAILED.name: ErrorExplanation(
        1,
        "it is not allowed to read one of its topics",
        "check the ACLs of its principal: READ and DESCRIBE on the topic",
    ),
    Error.GROUP_ID_NOT_FOUND.name: ErrorExplanation(
        3, "the coordinator does not know the group", "the group was never joined, or was deleted"
    ),
    Error.INVALID_SESSION_TIMEOUT.name: ErrorExplanation(
        1,
        "the broker does not allow its session timeout",
        "compare session.timeout.ms with the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    Error.UNSUPPORTED_ASSIGNOR.name: ErrorExplanation(
        1, "the broker does not have the requested assignor", "check the client's group.remote.assignor"
    ),
    Error.UNSUPPORTED_VERSION.name: ErrorExplanation(
        1, "the broker does not support its request", "check the client's group.protocol and the broker's version"
    ),
    Error.NOT_COORDINATOR.name: ErrorExplanation(
        2,
        "the broker it asks is not the group's coordinator",
        "check whether FindCoordinator and the broker agree: brokers may disagree about the leader of a partition of "
        "__consumer_offsets, or an address may lead to another broker",
    ),
    Error.COORDINATOR_NOT_AVAILABLE.name: ErrorExplanation(
        2, "the group has no coordinator", _OFFSETS + "offsets.topic.replication.factor=1"
    ),
    Error.COORDINATOR_LOAD_IN_PROGRESS.name: ErrorExplanation(
        2,
        "its coordinator is still loading the group from __consumer_offsets",
        "the coordinator moved; if loading takes minutes, a partition of __consumer_offsets is not compacted",
    ),
}

_DEFAULT_THRESHOLD = 3  # refusals after which an error without an entry here is a stall


#: FENCED_MEMBER_EPOCH in response to a join (S064).
FENCED_JOIN = ErrorExplanation(
    1,
    "the coordinator refuses epoch 0, with which a fenced member may always join again",
    "upgrade or fix the broker; until then, restart the client with a new member id",
)

#: UNKNOWN_MEMBER_ID in response to a commit without a member id.
COMMIT_WITHOUT_MEMBER = ErrorExplanation(
    1,
    "it commits without being a member (no member id), which Kafka accepts only while the group has no members",
    "stop the consumers of the group before offsets are changed from outside, or commit as a member of the group",
)


def refused_leave_of_active_member(ago: str) -> ErrorExplanation:
    """Explain UNKNOWN_MEMBER_ID in response to LeaveGroup of a member whose heartbeat was accepted just before."""
    return ErrorExplanation(
        1,
        f"the coordinator accepted its heartbeat {ago} before, so it cannot have removed it",
        "fix the broker or gateway: from LeaveGroup v3 on, the member id is in members[], not in member_id; until "
        "then, the group waits for the session of each member that leaves",
    )


_LOST_STATE = (
    "the broker must keep what it has given: check its log, and whether a second broker takes itself for the "
    "coordinator of this group"
)
#: The coordinator refuses a generation that it gave the member, or a member that it accepted.
CONTRADICTED_GENERATION = ErrorExplanation(
    2, "the coordinator has given the member this generation, and no newer one that is visible here", _LOST_STATE
)
CONTRADICTED_MEMBER = ErrorExplanation(
    1, "the coordinator accepted this member only a moment before, so its session cannot have expired", _LOST_STATE
)


#: Errors after which a client repeats the commit within moments, as part of normal operation. With version 2 of
#: transactions (KIP-890), the first TxnOffsetCommit may come before the previous transaction is completed.
TRANSIENT_COMMIT_ERRORS = _error_names(Error.CONCURRENT_TRANSACTIONS)


@functools.cache
def explanation(api: str, error: str) -> ErrorExplanation:
    """Return what an error, by name, means for a member or, if it is not about groups, for the API in general."""
    if (explanation := EXPLANATIONS.get(error)) is not None:
        return explanation
    judgement = refusals.judgement(api, Error[error].value) if error in Error.__members__ else refusals.UNKNOWN
    grace_period = 0 if judgement.nature is refusals.Nature.FINAL else int(judgement.grace_period * SECOND)
    return ErrorExplanation(_DEFAULT_THRESHOLD, judgement.meaning, judgement.change, grace_period)
