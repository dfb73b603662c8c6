"""CreateTopics: creates topics with their partitions, replicas and configs.

From version 5 on, the response has the configs of each new topic; from version 7 on, it also has the topic's id.

Leaves out: timeouts (topics are created immediately) and create policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kproxy.broker.access import CLUSTER, is_allowed, require
from kproxy.broker.configs import Configs
from kproxy.broker.configs.alteration import check_settings
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics, check_name


@api("CreateTopics")
async def create_topics(request: Request) -> Body:
    """Return the result for each topic; a topic that is listed twice is rejected."""
    counts = Counter(topic["name"] for topic in request.body["topics"])
    total = sum(_partition_count(request, topic) for topic in request.body["topics"])
    try:
        request.cluster.part(Topics).check_request(total)
    except ApiError as api_error:
        return {"topics": [_error_result(name, api_error) for name in counts]}
    responses = [
        _create_or_reject(request, topic) async for topic in paced(request.body["topics"]) if counts[topic["name"]] == 1
    ]
    duplicate_error = ApiError(Error.INVALID_REQUEST, "Duplicate topic name.")
    return {
        "topics": [*responses, *(_error_result(name, duplicate_error) for name, count in counts.items() if count > 1)]
    }


def _create_or_reject(request: Request, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    name = entry["name"]
    try:
        if not is_allowed(request, "CREATE", "CLUSTER", CLUSTER):
            require(request, "CREATE", "TOPIC", name)
        return _create(request, entry)
    except ApiError as api_error:
        return _error_result(name, api_error)


def _create(request: Request, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    name = entry["name"]
    cluster = request.cluster
    topics, configs = cluster.part(Topics), cluster.part(Configs)
    check_name(name)
    if topics.by_name(name) is not None:
        raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if (colliding_topic := topics.find_colliding(name)) is not None:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding_topic}")
    replicas = _assign_replicas(request, topics, entry)
    settings = {config["name"]: config["value"] for config in entry["configs"]}
    if None in settings.values():
        error_before_kraft = Error.INVALID_REQUEST if cluster.line.is_at_least("2.6") else Error.UNKNOWN_SERVER_ERROR
        error = Error.INVALID_CONFIG if cluster.line.kraft else error_before_kraft
        null_keys = ",".join(key for key, value in settings.items() if value is None)
        raise ApiError(error, f"Null value not supported for topic configs: {null_keys}")
    check_settings(configs, "topic", name, settings)
    response: dict[str, Any] = {
        "name": name,
        "error_message": None,
        "num_partitions": len(replicas),
        "replication_factor": len(replicas[0]),
    }
    if not request.body.get("validate_only", False):
        response["topic_id"] = topics.create(name, replicas).id
        configs.set("topic", name, settings)
    if is_allowed(request, "DESCRIBE_CONFIGS", "TOPIC", name):
        response["configs"] = [
            {
                "name": config.definition.name,
                "value": config.visible_value,
                "read_only": config.definition.read_only,
                "config_source": config.source,
                "is_sensitive": config.definition.sensitive,
            }
            for config in configs.describe("topic", name, settings)
        ]
    else:
        response |= {"topic_config_error_code": Error.TOPIC_AUTHORIZATION_FAILED, "configs": None}
        response |= {"num_partitions": -1, "replication_factor": -1}
    return response


def _partition_count(request: Request, entry: Mapping[str, Any]) -> int:
    """Return the number of partitions that an entry requests."""
    if entry["assignments"]:
        return len(entry["assignments"])
    default = int(request.cluster.part(Configs).broker("num.partitions"))
    return default if entry["num_partitions"] == -1 else max(entry["num_partitions"], 0)


def _assign_replicas(request: Request, topics: Topics, entry: Mapping[str, Any]) -> list[list[int]]:
    partitions, factor, assignments = entry["num_partitions"], entry["replication_factor"], entry["assignments"]
    if assignments:
        if partitions != -1 or factor != -1:
            option = "replication factor" if factor != -1 else "numPartitions"
            raise ApiError(
                Error.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {option} was not set to -1.",
            )
        return _check_assignments(request, assignments)
    if request.cluster.line.is_at_least("2.4"):  # KIP-464: brokers accept -1 in every request version
        default = int(request.cluster.part(Configs).broker("num.partitions"))
        partitions = default if partitions == -1 else partitions
        factor = topics.default_replication if factor == -1 else factor
    return topics.choose_replicas(partitions, factor)


def _check_assignments(request: Request, assignments: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    by_index = {assignment["partition_index"]: list(assignment["broker_ids"]) for assignment in assignments}
    if len(by_index) != len(assignments):
        raise ApiError(Error.INVALID_REPLICA_ASSIGNMENT, "Found multiple manual partition assignments for a partition.")
    if sorted(by_index) != list(range(len(by_index))):
        raise ApiError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    check_replicas(request, by_index.values())
    return [by_index[index] for index in range(len(by_index))]


def check_replicas(request: Request, assignments: Any) -> None:
    """Raise `ApiError` with INVALID_REPLICA_ASSIGNMENT unless the replicas are distinct, existing brokers.

    Source: ReplicationControlManager.validateManualPartitionAssignment.
    """
    factor = None
    for replicas in assignments:
        if not replicas:
            raise ApiError(
                Error.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
            )
        if len(set(replicas)) != len(replicas):
            raise ApiError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {replicas[0]} more than once.",
            )
        for broker in replicas:
            if broker not in request.cluster.nodes:
                raise ApiError(
                    Error.INVALID_REPLICA_ASSIGNMENT,
                    f"The manual partition assignment includes broker {broker}, but no such broker is registered.",
                )
        if factor not in (None, len(replicas)):
            raise ApiError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
                f"but this is not consistent with previous partitions, which have {factor} replica(s).",
            )
        factor = len(replicas)


def _error_result(name: str, api_error: ApiError) -> Mapping[str, Any]:
    return {"name": name, "error_code": api_error.error, "error_message": api_error.message}
