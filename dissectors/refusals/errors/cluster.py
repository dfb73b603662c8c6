"""Errors about topics, configs, the controller, brokers and their metadata."""

from __future__ import annotations

from typing import Final

from dissectors.refusals.judgement import ELECTION, Harm, Judgements, final_error, routine_error, transient_error
from dissectors.schemas.codes import Error

_LOG = "check the log of the controller"
_BROKERS = "between brokers: check that both run the same version and belong to the same cluster"

ERRORS: Final[Judgements] = {
    Error.STALE_CONTROLLER_EPOCH: final_error("the controller was replaced", _LOG, blame="broker"),
    Error.UNSUPPORTED_VERSION: final_error(
        "the broker does not have this version of the API, or a feature that it needs",
        "use a version that ApiVersions lists; check the release of the broker and its metadata.version",
    ),
    Error.TOPIC_ALREADY_EXISTS: final_error(
        "the topic exists", "ignore it if the topic may exist; otherwise use another name", harm=Harm.NONE
    ),
    Error.INVALID_PARTITIONS: final_error(
        "the number of partitions is invalid", "use a number above 0 (-1 for the default), and above the current one",
        fields=("num_partitions", "count"),
    ),
    Error.INVALID_REPLICATION_FACTOR: final_error(
        "the replication factor is invalid, or larger than the number of brokers",
        "lower the replication factor, or start more brokers", fields=("replication_factor",),
    ),
    Error.INVALID_REPLICA_ASSIGNMENT: final_error(
        "the assignment of replicas to brokers is invalid",
        "name each partition from 0 on once, with as many different brokers for each, all of which exist",
    ),
    Error.INVALID_CONFIG: final_error(
        "a config has an unknown name or an invalid value", "correct the config that the broker's message names"
    ),
    Error.NOT_CONTROLLER: transient_error(
        "the broker is not the controller",
        "the client must request Metadata and use its controller_id; if it does, the cluster has no controller",
        blame="client", grace_period=ELECTION,
    ),
    Error.INVALID_REQUEST: final_error(
        "the request has values that the API does not allow, or do not fit together",
        "compare the request with what the API's handler in Kafka validates; the broker's log has the reason",
        harm=Harm.DATA,
    ),
    Error.POLICY_VIOLATION: final_error(
        "a policy of the broker (create.topic.policy.class.name, alter.config.policy.class.name) or a limit forbids it",
        "change the request as the broker's message says, or ask whoever runs the cluster",
    ),
    Error.OPERATION_NOT_ATTEMPTED: routine_error(
        "another part of the request failed, so this one was not tried", "correct the part that failed",
        grace_period=10.0
    ),
    Error.REASSIGNMENT_IN_PROGRESS: final_error(
        "the partition is being moved to other brokers", "repeat the request when the reassignment has ended"
    ),
    Error.NO_REASSIGNMENT_IN_PROGRESS: final_error(
        "no reassignment of the partition is in progress", "nothing: the client has nothing to cancel", harm=Harm.NONE
    ),
    Error.TOPIC_DELETION_DISABLED: final_error(
        "the broker does not allow that topics are deleted", "set delete.topic.enable=true on the brokers"
    ),
    Error.STALE_BROKER_EPOCH: final_error(f"the broker's epoch is old ({_BROKERS})", _LOG, blame="broker"),
    Error.PREFERRED_LEADER_NOT_AVAILABLE: transient_error(
        "the preferred leader is down or not in sync", "start the first broker of the partition's replicas"
    ),
    Error.ELIGIBLE_LEADERS_NOT_AVAILABLE: transient_error(
        "no replica can become the leader", "start the brokers with its replicas, those of the last ISR first"
    ),
    Error.ELECTION_NOT_NEEDED: final_error(
        "the partition has the requested leader already", "nothing: no election is needed", harm=Harm.NONE
    ),
    Error.THROTTLING_QUOTA_EXCEEDED: transient_error(
        "the quota of controller mutations is exceeded",
        "create and delete topics and partitions more slowly, or raise the quota (controller_mutation_rate)",
        blame="client",
    ),
    Error.RESOURCE_NOT_FOUND: final_error("the resource does not exist", "check its name; it may have been deleted"),
    Error.DUPLICATE_RESOURCE: final_error(
        "the request has the same resource twice, or it exists", "name each resource once"
    ),
    Error.INVALID_UPDATE_VERSION: final_error(
        "the requested feature level is invalid", "use a level that the brokers support"
    ),
    Error.FEATURE_UPDATE_FAILED: final_error(
        "the controller could not change the feature level", "the broker's message names the brokers that lack it",
        blame="broker",
    ),
    Error.INCONSISTENT_VOTER_SET: final_error("the voters of the controller quorum differ", _BROKERS, blame="broker"),
    Error.DUPLICATE_BROKER_REGISTRATION: final_error(
        "another broker is registered with this node id", "give every broker its own node.id", blame="broker",
        harm=Harm.DATA,
    ),
    Error.BROKER_ID_NOT_REGISTERED: final_error(
        "no broker with this id is registered", "check the broker id; start the broker", blame="broker"
    ),
    Error.INCONSISTENT_CLUSTER_ID: final_error(
        "the cluster id is not the one of this cluster", "check the addresses: they lead to another cluster",
        fields=("cluster_id",),
    ),
    Error.INELIGIBLE_REPLICA: transient_error("the replica cannot join the ISR", "check whether its broker is fenced"),
    Error.MISMATCHED_ENDPOINT_TYPE: final_error(
        "the request asks for another kind of endpoint than this node is",
        "use bootstrap.servers for brokers, and bootstrap.controllers for controllers", fields=("endpoint_type",),
    ),
    Error.UNSUPPORTED_ENDPOINT_TYPE: final_error("the endpoint type is unknown", "use 1 (brokers) or 2 (controllers)",
                                                 fields=("endpoint_type",)),
    Error.UNKNOWN_CONTROLLER_ID: final_error("the controller is unknown", _LOG, blame="broker"),
    Error.CONTROLLER_ID_NOT_REGISTERED: final_error("no controller with this id is registered", _LOG, blame="broker"),
    Error.UNKNOWN_SUBSCRIPTION_ID: routine_error(
        "the telemetry subscription has changed (KIP-714)", "the client must send GetTelemetrySubscriptions again"
    ),
    Error.TELEMETRY_TOO_LARGE: final_error(
        "the telemetry is larger than the broker accepts",
        "raise telemetry.max.bytes of the broker, or push fewer metrics"
    ),
    Error.INVALID_REGISTRATION: final_error("the registration of the broker is invalid", _LOG, blame="broker"),
    Error.INVALID_VOTER_KEY: final_error("the voter's key does not match its log directory", _LOG, blame="broker"),
    Error.DUPLICATE_VOTER: final_error(
        "the voter is in the quorum already", "nothing, if it should be", harm=Harm.NONE
    ),
    Error.VOTER_NOT_FOUND: final_error("the voter is not in the quorum", "check the id and directory id of the voter"),
    Error.REBOOTSTRAP_REQUIRED: routine_error(
        "the server sends the client back to its bootstrap servers (KIP-1102)",
        "if it happens again and again, check that bootstrap.servers leads to the brokers that the client is to use",
        grace_period=10.0,
    ),
}  # fmt: skip
