"""Errors that mean something else in some APIs, or call for another change, than in the general tables."""

from __future__ import annotations

from typing import Final

from dissectors.refusals.judgement import (
    ELECTION,
    PROPAGATION,
    ErrorJudgement,
    Harm,
    JudgementsByApi,
    final_error,
    routine_error,
    transient_error,
)
from dissectors.schemas.codes import Error

_ADD_PARTITIONS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit")
_TRANSACTIONS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
_DESCRIBE_GROUPS = ("DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe")
_TRANSACTION_STATE = (
    "check that __transaction_state exists and all its partitions have a leader; a single broker needs "
    "transaction.state.log.replication.factor=1 and transaction.state.log.min.isr=1"
)


def _for_each_api(apis: tuple[str, ...], error: Error, judgement: ErrorJudgement) -> JudgementsByApi:
    return {(api, error): judgement for api in apis}


ERRORS: Final[JudgementsByApi] = {
    # Clients ask for something that a broker may not have, and fall back to something else.
    ("ApiVersions", Error.UNSUPPORTED_VERSION): routine_error(
        "the broker does not have this version of ApiVersions (KIP-511)",
        "the client must repeat ApiVersions with a version that the response lists, or version 0",
        grace_period=5.0,
    ),
    ("ApiVersions", Error.REBOOTSTRAP_REQUIRED): transient_error(
        "the address leads to another broker or cluster than the client expects (KIP-1242)",
        "check what the broker's advertised name resolves to, and load balancers between them",
        fields=("cluster_id", "node_id"), grace_period=10.0,
    ),
    **_for_each_api(
        _DESCRIBE_GROUPS, Error.GROUP_ID_NOT_FOUND,
        routine_error("the group does not exist, or is of another type", "check the group id", grace_period=30.0),
    ),
    **_for_each_api(
        _DESCRIBE_GROUPS, Error.UNSUPPORTED_VERSION,
        routine_error("the broker does not have this type of group", "check the broker's release", grace_period=30.0),
    ),
    **_for_each_api(
        ("GetTelemetrySubscriptions", "PushTelemetry"), Error.INVALID_REQUEST,
        final_error(
            "the broker cannot use the telemetry request",
            "check client_instance_id, the subscription id and the push interval of the client (KIP-714)",
            fields=("client_instance_id",),
        ),
    ),
    ("OffsetFetch", Error.UNKNOWN_TOPIC_OR_PARTITION): final_error(
        "the coordinator does not know the topic; Kafka's returns this only to version 0",
        "check the topic's name in the client, and whether it was deleted; from version 1 on, the broker should return "
        "committed_offset -1 without an error for what is not committed",
        blame="broker",
    ),
    # The requested state exists already.
    ("LeaveGroup", Error.UNKNOWN_MEMBER_ID): routine_error("the member left or was removed before", "nothing"),
    ("DeleteTopics", Error.UNKNOWN_TOPIC_OR_PARTITION): final_error(
        "the topic does not exist",
        "nothing, if it was deleted before; otherwise correct its name in the client",
        harm=Harm.NONE,
    ),
    ("DeleteTopics", Error.UNKNOWN_TOPIC_ID): final_error(
        "no topic has this id", "nothing, if it was deleted before", harm=Harm.NONE
    ),
    ("DescribeTransactions", Error.TRANSACTIONAL_ID_NOT_FOUND): final_error(
        "no transactional id has this name, or it expired", "check the id", harm=Harm.NONE
    ),
    ("DeleteGroups", Error.GROUP_ID_NOT_FOUND): final_error(
        "the group does not exist", "nothing, if it was deleted before", harm=Harm.NONE
    ),
    # Admin requests about a missing topic are not retried until it exists.
    **_for_each_api(
        ("CreatePartitions", "DeleteRecords", "AlterPartitionReassignments", "DescribeConfigs", "AlterConfigs",
         "IncrementalAlterConfigs", "ElectLeaders", "DescribeProducers", "OffsetDelete"),
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        final_error("the topic or partition does not exist", "create the topic, or correct its name"),
    ),
    ("DeleteRecords", Error.OFFSET_OUT_OF_RANGE): final_error(
        "the offset is above the high watermark",
        "make the client send an offset of at most the end of the partition; -1 means its end",
    ),
    # Produce
    ("Produce", Error.REQUEST_TIMED_OUT): transient_error(
        "the replicas did not confirm the batch within timeout_ms; it may be written",
        "check the followers: their broker is slow or down (kafka-topics --describe --under-replicated-partitions); "
        "raise request.timeout.ms of the producer, and make it idempotent, which prevents duplicates",
        fields=("timeout_ms", "acks"), grace_period=1.5,
    ),
    ("Produce", Error.KAFKA_STORAGE_ERROR): transient_error(
        "the broker cannot write to the partition's log directory",
        "check the broker's disks and their free space, and its log for the failed log directory",
        grace_period=1.5,
    ),
    ("Produce", Error.CORRUPT_MESSAGE): transient_error(
        "the CRC or the size of the batch is wrong",
        "check how the client computes the CRC (CRC-32C from attributes on), and whether anything between changes "
        "bytes; "
        "brokers before 2.4 also return this for a record without key in a compacted topic",
        blame="client",
    ),
    ("Produce", Error.INVALID_REQUEST): final_error(
        "the batches of the request do not fit together",
        "send one batch per partition, and only transactional or only other ones", harm=Harm.DATA,
    ),
    ("Produce", Error.INVALID_TXN_STATE): final_error(
        "the partition is not part of an open transaction",
        "the client must send AddPartitionsToTxn before it writes to a partition (Produce v12 adds it itself, KIP-890)",
        harm=Harm.DATA,
    ),
    # Fetch, ListOffsets
    ("Fetch", Error.CORRUPT_MESSAGE): final_error(
        "the broker cannot read a batch: its log has a corrupt record",
        "check the broker's disk and log for the damaged segment; let it replicate from another broker, or move the "
        "consumer past the offset",
        blame="broker", fields=("fetch_offset",), harm=Harm.DATA,
    ),
    ("Fetch", Error.KAFKA_STORAGE_ERROR): transient_error(
        "the broker cannot read the partition's log directory",
        "check the broker's disks, and its log for the failed log directory",
        grace_period=1.5,
    ),
    ("Fetch", Error.UNSUPPORTED_COMPRESSION_TYPE): final_error(
        "the batches are compressed with zstd, which this version of Fetch does not have",
        "update the consumer: zstd needs Fetch v10 (KIP-110); or set another compression.type for the topic",
        harm=Harm.DATA,
    ),
    ("Fetch", Error.INVALID_REQUEST): final_error(
        "the fetch is invalid", "check max_wait_ms, min_bytes and the session of the request", harm=Harm.DATA,
        fields=("session_id", "session_epoch"),
    ),
    ("ListOffsets", Error.UNSUPPORTED_FOR_MESSAGE_FORMAT): final_error(
        "the log's message format has no timestamps to search for",
        "raise message.format.version of the topic, or look up the earliest or latest offset",
    ),
    # Groups
    ("OffsetCommit", Error.REBALANCE_IN_PROGRESS): routine_error(
        "the group is rebalancing, so the commit may belong to partitions that the member loses",
        "the client must rejoin, and commit again after it",
        grace_period=15.0,
    ),
    ("OffsetCommit", Error.REQUEST_TIMED_OUT): transient_error(
        "the commit was not replicated in time",
        "check the followers of __consumer_offsets; its min.insync.replicas needs that many brokers",
    ),
    ("OffsetCommit", Error.GROUP_ID_NOT_FOUND): final_error(
        "the group does not exist", "join the group before committing, or commit with generation -1 and no member id",
    ),
    ("ConsumerGroupHeartbeat", Error.GROUP_ID_NOT_FOUND): final_error(
        "the group does not exist, or is of another type",
        "use another group.id, or the same group.protocol in all members",
        harm=Harm.DATA,
    ),
    ("ConsumerGroupHeartbeat", Error.UNSUPPORTED_VERSION): final_error(
        "the broker does not serve consumer groups of KIP-848",
        "enable them (group.version 1, group.coordinator.rebalance.protocols), or use group.protocol=classic",
        harm=Harm.DATA,
    ),
    ("StreamsGroupTopologyDescriptionUpdate", Error.UNSUPPORTED_VERSION): final_error(
        "the broker stores no topology descriptions, so it requests none (KIP-1331)",
        "the client must push only after a heartbeat response with topology_description_required; to store "
        "descriptions, set group.streams.topology.description.plugin.class on all brokers",
        harm=Harm.NONE,
    ),
    ("StreamsGroupTopologyDescriptionUpdate", Error.INVALID_REQUEST): final_error(
        "the epoch of the pushed topology is not the group's, or the description is malformed (KIP-1331)",
        "push the description of the topology that the member joined with, with its epoch; the broker's message names "
        "both epochs or the wrong node; after a change of the topology, update all instances",
        fields=("topology_epoch",),
    ),
    ("StreamsGroupTopologyDescriptionUpdate", Error.GROUP_ID_NOT_FOUND): final_error(
        "no streams group has this id: it was deleted meanwhile, or is of another type",
        "the member must join with StreamsGroupHeartbeat before it pushes", harm=Harm.NONE,
    ),
    ("StreamsGroupTopologyDescriptionUpdate", Error.UNKNOWN_MEMBER_ID): transient_error(
        "the streams group does not have this member: its session expired, or it left",
        "the client must rejoin with member_epoch 0, and push when the coordinator requests it again",
        blame="client", grace_period=ELECTION, fields=("member_id",),
    ),
    # Transactions
    **_for_each_api(
        _TRANSACTIONS, Error.COORDINATOR_NOT_AVAILABLE,
        transient_error("the transactional id has no coordinator", _TRANSACTION_STATE, grace_period=ELECTION),
    ),
    **_for_each_api(
        _TRANSACTIONS, Error.COORDINATOR_LOAD_IN_PROGRESS,
        transient_error(
            "the transaction coordinator is still loading its partition of __transaction_state",
            "wait, if the broker just started; if it takes longer than a minute, check that __transaction_state is "
            "compacted (log cleaner) and the broker's log",
            grace_period=ELECTION,
        ),
    ),
    **_for_each_api(
        _ADD_PARTITIONS, Error.CONCURRENT_TRANSACTIONS,
        transient_error(
            "the coordinator is still completing the previous transaction of this id",
            "check the brokers that lead the partitions of the previous transaction: it cannot end while one of them "
            "takes no markers (kafka-transactions find-hanging); otherwise this passes in milliseconds",
            grace_period=3.0,
        ),
    ),
    ("EndTxn", Error.CONCURRENT_TRANSACTIONS): transient_error(
        "the coordinator is still completing this transaction",
        "check the brokers that lead the partitions of the transaction: it cannot end while one of them takes no "
        "markers "
        "(kafka-transactions find-hanging)",
        grace_period=3.0,
    ),
    ("EndTxn", Error.INVALID_TXN_STATE): final_error(
        "the transaction is in a state that cannot be committed or aborted",
        "commit or abort a transaction once; an empty one needs no EndTxn, and one that was aborted by its timeout "
        "cannot be committed (transaction.timeout.ms)",
        fields=("committed",), harm=Harm.DATA,
    ),
    ("InitProducerId", Error.INVALID_REQUEST): final_error(
        "the transactional id is empty, or only one of producer id and epoch is set",
        "set transactional_id to null or to a text that is not empty, and both of producer_id and producer_epoch or "
        "none",
        fields=("transactional_id", "producer_id", "producer_epoch"), harm=Harm.DATA,
    ),
    # The cluster
    ("Metadata", Error.UNKNOWN_TOPIC_OR_PARTITION): transient_error(
        "the topic does not exist",
        "create the topic, or correct its name in the client; auto.create.topics.enable of the broker may be false",
        blame="client", grace_period=PROPAGATION,
    ),
    ("Metadata", Error.LEADER_NOT_AVAILABLE): transient_error(
        "the topic is being created, or a partition has no leader",
        "check that the brokers with its replicas are up (kafka-topics --describe --unavailable-partitions)",
        grace_period=ELECTION,
    ),
    ("CreateTopics", Error.REQUEST_TIMED_OUT): transient_error(
        "the topic was not created within timeout_ms; it may still appear",
        "check the controller and its log, and whether timeout_ms is too short",
        fields=("timeout_ms",),
    ),
    ("CreateTopics", Error.UNKNOWN_SERVER_ERROR): final_error(
        "the controller failed", "find the exception in the log of the controller at this time", blame="broker"
    ),
}  # fmt: skip
