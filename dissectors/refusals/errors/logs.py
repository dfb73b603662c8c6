"""Errors about partitions and their logs: Produce, Fetch, ListOffsets, Metadata."""

from __future__ import annotations

from typing import Final

from dissectors.refusals.judgement import (
    ELECTION,
    PROPAGATION,
    Harm,
    Judgements,
    final_error,
    routine_error,
    transient_error,
)
from dissectors.schemas.codes import Error

_LOG = "check the broker's log"
_ISR = (
    "start the brokers that are down or behind (kafka-topics --describe --under-min-isr-partitions); "
    "min.insync.replicas must not exceed the replicas of the topic that can be in sync"
)

ERRORS: Final[Judgements] = {
    Error.UNKNOWN_SERVER_ERROR: final_error(
        "the broker failed with an exception that has no error code",
        "find the exception in the broker's log at this time; if the broker is not Kafka, it is a bug of it",
        blame="broker", harm=Harm.DATA,
    ),
    Error.OFFSET_OUT_OF_RANGE: routine_error(
        "the offset is below the start or above the end of the log",
        "the client must reset its position (auto.offset.reset); check whether retention deletes records before they "
        "are read",
        grace_period=10.0,
    ),
    Error.CORRUPT_MESSAGE: transient_error(
        "the record data is corrupt: its CRC or its size is wrong",
        "check the broker's disk and log for a damaged segment; for a produced batch, check how the client computes "
        "the "
        "CRC and whether anything between changes bytes",
    ),
    Error.UNKNOWN_TOPIC_OR_PARTITION: transient_error(
        "the topic or partition does not exist on this broker",
        "create the topic, or correct its name or the partition; a topic that was just created or deleted takes a "
        "moment",
        blame="client", grace_period=PROPAGATION,
    ),
    Error.INVALID_FETCH_SIZE: final_error(
        "the requested fetch size is invalid", "request a positive size (max_bytes, partition_max_bytes)",
        fields=("max_bytes", "min_bytes"),
    ),
    Error.LEADER_NOT_AVAILABLE: transient_error(
        "the partition has no leader",
        "find the brokers with its replicas and start them (kafka-topics --describe --unavailable-partitions); this "
        "passes in seconds after a topic is created or a broker stops",
        grace_period=ELECTION,
    ),
    Error.NOT_LEADER_OR_FOLLOWER: transient_error(
        "the broker does not have the partition as its leader or follower",
        "the client must request Metadata and use the leader that it names; if it does, brokers disagree about the "
        "leader, or an address leads to another broker",
        blame="client", grace_period=ELECTION,
    ),
    Error.REQUEST_TIMED_OUT: transient_error(
        "the broker did not finish the request within its timeout",
        "check the load of the broker and its replicas, and whether timeout_ms (request.timeout.ms) is too short",
        fields=("timeout_ms",),
    ),
    Error.BROKER_NOT_AVAILABLE: final_error(
        "a broker that is needed is not available", "start the broker; check the cluster's metadata", blame="broker"
    ),
    Error.REPLICA_NOT_AVAILABLE: transient_error(
        "a replica of the partition is not available", "start the brokers with its replicas", grace_period=ELECTION
    ),
    Error.MESSAGE_TOO_LARGE: final_error(
        "a batch or record is larger than the broker accepts",
        "send smaller batches (max.request.size, batch.size), or raise max.message.bytes of the topic or "
        "message.max.bytes of the broker",
        harm=Harm.DATA,
    ),
    Error.NETWORK_EXCEPTION: transient_error(
        "the broker lost the connection to another broker", "check the network between the brokers"
    ),
    Error.INVALID_TOPIC_EXCEPTION: final_error(
        "the topic's name is invalid, or the topic cannot be used in this way",
        "use a name of 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', and do not write to internal topics",
    ),
    Error.RECORD_LIST_TOO_LARGE: final_error(
        "the batch is larger than a segment of the log",
        "send smaller batches (batch.size), or raise segment.bytes of the topic",
        harm=Harm.DATA,
    ),
    Error.NOT_ENOUGH_REPLICAS: transient_error(
        "the partition has fewer in-sync replicas than min.insync.replicas, so that acks=all is refused", _ISR,
        grace_period=1.5,
    ),
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: transient_error(
        "the batch was written, but to fewer in-sync replicas than min.insync.replicas; a retry may write it twice",
        f"{_ISR}; make the producer idempotent, which prevents duplicates",
        grace_period=1.5,
    ),
    Error.INVALID_REQUIRED_ACKS: final_error(
        "acks must be -1 (all), 0 or 1", "set acks to -1, 0 or 1", fields=("acks",), harm=Harm.DATA
    ),
    Error.INVALID_TIMESTAMP: final_error(
        "the timestamp of a record is outside of what the topic accepts",
        "correct the clock or the unit (milliseconds) of the producer's timestamps, or raise "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
        harm=Harm.DATA,
    ),
    Error.UNSUPPORTED_FOR_MESSAGE_FORMAT: final_error(
        "the topic's message format is too old for the request",
        "raise message.format.version of the topic (log.message.format.version of the broker), or do not use "
        "idempotence, headers or transactions",
        harm=Harm.DATA,
    ),
    Error.KAFKA_STORAGE_ERROR: transient_error(
        "the broker cannot read or write the partition's log directory",
        "check the broker's disks and their free space, and its log for the failed log directory; a replica on another "
        "broker must become the leader",
    ),
    Error.LOG_DIR_NOT_FOUND: final_error(
        "the broker has no such log directory", "use one of the broker's log.dirs (kafka-log-dirs --describe)",
    ),
    Error.FETCH_SESSION_ID_NOT_FOUND: routine_error(
        "the broker has no such fetch session: it restarted, or evicted the session",
        "the client must send a full fetch with epoch 0; raise max.incremental.fetch.session.cache.slots of the broker",
        blame="broker", grace_period=10.0,
    ),
    Error.INVALID_FETCH_SESSION_EPOCH: routine_error(
        "the epoch of the fetch session is not the expected one",
        "the client must increase the epoch by 1 with each fetch, and send epoch 0 after this error",
        grace_period=10.0,
    ),
    Error.FETCH_SESSION_TOPIC_ID_ERROR: routine_error(
        "the fetch session mixes requests with and without topic ids",
        "the client must send a full fetch with epoch 0 after this error",
        grace_period=10.0,
    ),
    Error.FENCED_LEADER_EPOCH: transient_error(
        "the leader epoch in the request is older than the broker's",
        "the client must request Metadata and use the leader epoch that it names",
        blame="client", grace_period=ELECTION, fields=("current_leader_epoch",),
    ),
    Error.UNKNOWN_LEADER_EPOCH: transient_error(
        "the leader epoch in the request is newer than the broker's",
        "the broker's metadata is behind: check whether it reaches the controller; the client's epoch must come from "
        "Metadata",
        grace_period=ELECTION, fields=("current_leader_epoch",),
    ),
    Error.OFFSET_NOT_AVAILABLE: transient_error(
        "the new leader does not know its high watermark yet",
        "check whether the followers of the partition fetch from the leader",
        grace_period=ELECTION,
    ),
    Error.UNSUPPORTED_COMPRESSION_TYPE: final_error(
        "the batch is compressed in a way that this version of the API does not have",
        "use another compression.type, or Produce v7 and Fetch v10 for zstd (KIP-110)",
        harm=Harm.DATA,
    ),
    Error.INVALID_RECORD: final_error(
        "the broker's validation refused the batch: a record without key in a compacted topic, a wrong magic, codec, "
        "count, offset or timestamp",
        "correct what the broker's message names; check attributes, records_count, offset deltas and timestamps of the "
        "batch, and keys if the topic is compacted",
        harm=Harm.DATA,
    ),
    Error.UNKNOWN_TOPIC_ID: transient_error(
        "the broker has no topic with this id",
        "the client must request Metadata: the topic was deleted, or was created again with another id",
        blame="client", grace_period=PROPAGATION,
    ),
    Error.INCONSISTENT_TOPIC_ID: transient_error(
        "the topic's id is not the one of its log",
        "the client must request Metadata: the topic was created again",
        blame="client", grace_period=PROPAGATION,
    ),
    Error.OFFSET_MOVED_TO_TIERED_STORAGE: routine_error(
        "the offset is only in tiered storage", "a follower must read the earliest local offset and continue there",
        blame="broker",
    ),
    Error.LISTENER_NOT_FOUND: transient_error(
        "the leader has no listener of the name that the client connected to",
        "give all brokers the same listener names (advertised.listeners)",
        grace_period=ELECTION,
    ),
    Error.SNAPSHOT_NOT_FOUND: final_error("the snapshot does not exist", _LOG, blame="broker"),
    Error.POSITION_OUT_OF_RANGE: final_error("the position is outside of the snapshot", _LOG, blame="broker"),
    Error.NEW_LEADER_ELECTED: routine_error(
        "another broker became the leader while the request waited",
        "the client must request Metadata and repeat the request at the new leader",
        grace_period=ELECTION,
    ),
}  # fmt: skip
