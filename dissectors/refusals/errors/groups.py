"""Errors about groups: classic, consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups, and offsets."""

from __future__ import annotations

from typing import Final

from dissectors.refusals.judgement import ELECTION, Harm, Judgements, final_error, routine_error, transient_error
from dissectors.schemas.codes import Error

_INTERNAL = (
    "check that __consumer_offsets (__transaction_state for transactions) exists and all its partitions have a leader; "
    "a single broker needs offsets.topic.replication.factor=1 and transaction.state.log.replication.factor=1"
)
_POLL = "check how long the client works between two polls (max.poll.interval.ms), and what blocks its heartbeats"
_SESSION = (
    "the client must open a new share session with epoch 0 after this error, and increase the epoch by 1 each time"
)

ERRORS: Final[Judgements] = {
    Error.COORDINATOR_LOAD_IN_PROGRESS: transient_error(
        "the coordinator is still loading its partition of __consumer_offsets or __transaction_state",
        "wait, if the broker just started; if it takes longer than a minute, check that the internal topic is "
        "compacted "
        "(log cleaner) and the broker's log",
        grace_period=ELECTION,
    ),
    Error.COORDINATOR_NOT_AVAILABLE: transient_error(
        "the group or transactional id has no coordinator", _INTERNAL, grace_period=ELECTION
    ),
    Error.NOT_COORDINATOR: transient_error(
        "the broker is not the coordinator of this group or transactional id",
        "the client must ask FindCoordinator and use the broker that it names; if it does, brokers disagree about the "
        "leader of the internal topic's partition, or an address leads to another broker",
        blame="client", grace_period=ELECTION,
    ),
    Error.OFFSET_METADATA_TOO_LARGE: final_error(
        "the metadata of a committed offset is too long",
        "commit shorter metadata, or raise offset.metadata.max.bytes of the broker",
    ),
    Error.ILLEGAL_GENERATION: transient_error(
        "the member uses another generation than the group has",
        f"the client must rejoin after this error; {_POLL}",
        blame="client", grace_period=ELECTION, fields=("generation_id", "generation_id_or_member_epoch"),
    ),
    Error.INCONSISTENT_GROUP_PROTOCOL: final_error(
        "the member shares no assignor or protocol type with the other members of the group",
        "give all members a common partition.assignment.strategy and the same group.protocol; use another group.id for "
        "another application",
        fields=("protocol_type",), harm=Harm.DATA,
    ),
    Error.INVALID_GROUP_ID: final_error(
        "the group id is empty or invalid", "set group.id to a text that is not empty", fields=("group_id",),
        harm=Harm.DATA,
    ),
    Error.UNKNOWN_MEMBER_ID: transient_error(
        "the coordinator does not have this member: its session expired, or it left",
        f"the client must rejoin with an empty member id; {_POLL}",
        blame="client", grace_period=ELECTION, fields=("member_id",),
    ),
    Error.INVALID_SESSION_TIMEOUT: final_error(
        "the session timeout is not between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
        "change session.timeout.ms of the client, or the broker's limits",
        fields=("session_timeout_ms",), harm=Harm.DATA,
    ),
    Error.REBALANCE_IN_PROGRESS: routine_error(
        "the group is rebalancing", "the client must rejoin the group", grace_period=300.0
    ),
    Error.INVALID_COMMIT_OFFSET_SIZE: final_error(
        "the committed offsets are too large for a record of __consumer_offsets",
        "commit fewer partitions or shorter metadata at a time, or raise max.message.bytes of __consumer_offsets",
        harm=Harm.DATA,
    ),
    Error.MEMBER_ID_REQUIRED: routine_error(
        "a new member gets its id (KIP-394)", "the client must repeat JoinGroup with the member id of the response",
        grace_period=5.0,
    ),
    Error.GROUP_MAX_SIZE_REACHED: final_error(
        "the group has as many members as the broker allows",
        "stop members, or raise group.max.size (group.consumer.max.size) of the broker; members that disappeared "
        "without "
        "leaving count until their session expires",
        harm=Harm.DATA,
    ),
    Error.FENCED_INSTANCE_ID: final_error(
        "another process joined with the same group.instance.id",
        "give every process its own group.instance.id; check whether two copies of it run",
        fields=("group_instance_id", "instance_id"), harm=Harm.DATA,
    ),
    Error.UNRELEASED_INSTANCE_ID: transient_error(
        "another member still holds this group.instance.id",
        "give every process its own group.instance.id; otherwise wait until the session of the other one expires",
        blame="client", grace_period=10.0, fields=("instance_id",),
    ),
    Error.NON_EMPTY_GROUP: final_error(
        "the group still has members", "stop its members, or wait until their sessions expire, and repeat the request"
    ),
    Error.GROUP_ID_NOT_FOUND: final_error(
        "the group does not exist", "check the group id, and whether its offsets expired"
    ),
    Error.GROUP_SUBSCRIBED_TO_TOPIC: final_error(
        "the group still subscribes to the topic", "stop the members that subscribe to it, and repeat the request"
    ),
    Error.FENCED_MEMBER_EPOCH: transient_error(
        "the coordinator has another epoch for this member",
        "the client must give up its partitions and rejoin with member_epoch 0, which the broker must accept (KIP-848)",
        blame="client", grace_period=3.0, fields=("member_epoch",),
    ),
    Error.STALE_MEMBER_EPOCH: transient_error(
        "the member uses an epoch that it no longer has",
        "the client must use the member_epoch of its last heartbeat response",
        blame="client", grace_period=ELECTION, fields=("member_epoch", "generation_id_or_member_epoch"),
    ),
    Error.UNSUPPORTED_ASSIGNOR: final_error(
        "the broker does not have the requested assignor",
        "set group.remote.assignor of the client to one in group.consumer.assignors of the broker (uniform, range)",
        fields=("server_assignor",), harm=Harm.DATA,
    ),
    Error.INVALID_REGULAR_EXPRESSION: final_error(
        "the subscription is not a valid regular expression (RE2/J)",
        "correct the expression: the broker evaluates it with Google's RE2/J, which has no look-around",
        fields=("subscribed_topic_regex",), harm=Harm.DATA,
    ),
    Error.INVALID_RECORD_STATE: final_error(
        "the acknowledged records are not acquired by this member: their lock expired, or they were acknowledged "
        "before",
        "acknowledge within share.record.lock.duration.ms, and each record once",
    ),
    Error.SHARE_SESSION_NOT_FOUND: routine_error(
        "the broker has no such share session: it restarted, or evicted the session", _SESSION, grace_period=10.0
    ),
    Error.INVALID_SHARE_SESSION_EPOCH: transient_error(
        "the epoch of the share session is not the expected one", _SESSION, blame="client",
        fields=("share_session_epoch",), grace_period=3.0,
    ),
    Error.SHARE_SESSION_LIMIT_REACHED: transient_error(
        "the broker has as many share sessions as it allows",
        "raise group.share.max.share.sessions of the broker, or use fewer share consumers",
    ),
    Error.FENCED_STATE_EPOCH: final_error(
        "the share coordinator has a newer epoch of this share partition", "the broker must initialise the state again",
        blame="broker",
    ),
    Error.STREAMS_INVALID_TOPOLOGY: final_error(
        "the topology that the member sent is invalid", "correct the topology; the broker's message names the topic",
        harm=Harm.DATA,
    ),
    Error.STREAMS_INVALID_TOPOLOGY_EPOCH: final_error(
        "the epoch of the topology is invalid", "raise the topology's epoch with each change of the topology",
        harm=Harm.DATA,
    ),
    Error.STREAMS_TOPOLOGY_FENCED: final_error(
        "the group has a newer topology than this member",
        "restart the member with the current version of the application",
        harm=Harm.DATA,
    ),
    Error.GROUP_DELETION_FAILED: final_error(
        "the group still exists, because the plugin could not delete the description of its topology (KIP-1331)",
        "check the coordinator's log and the plugin of group.streams.topology.description.plugin.class, and repeat "
        "the request",
        blame="broker",
    ),
    Error.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: final_error(
        "the plugin did not store the description of the topology (KIP-1331); the group runs without it",
        "read the broker's message and the coordinator's log; if the failure is permanent, the coordinator requests "
        "no description again until the topology's epoch changes; otherwise it requests it again after 30 s or more",
        blame="broker",
    ),
}  # fmt: skip
