"""X014: requests that the broker's access control lists (ACLs) deny."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import summary
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_TOPIC = Error.TOPIC_AUTHORIZATION_FAILED
_GROUP = Error.GROUP_AUTHORIZATION_FAILED
_CLUSTER = Error.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTION = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOKEN = Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
_THRESHOLD = 3
_MAX_REPORTED = 10

#: Error code -> (kind of resource, fields with its name). The fields are searched in the response around the error
#: code, then in the request.
_RESOURCES: dict[int, tuple[str, tuple[str, ...]]] = {
    _TOPIC: ("topic", ("name", "topic", "topic_name", "resource_name", "topic_id")),
    _GROUP: ("group", ("group_id", "key")),
    _CLUSTER: ("the cluster", ()),
    _TRANSACTION: ("transactional id", ("transactional_id", "v3_and_below_transactional_id", "key")),
    _TOKEN: ("delegation token", ()),
}

#: Error code -> operation -> APIs that need it. Source: Kafka's documentation, "Operations and Resources on Protocols".
_OPERATIONS: dict[int, dict[str, str]] = {
    _TOPIC: {
        "WRITE": "Produce AddPartitionsToTxn",
        "READ": "Fetch OffsetCommit TxnOffsetCommit OffsetDelete DescribeProducers ShareFetch ShareAcknowledge",
        "CREATE": "CreateTopics",
        "DELETE": "DeleteTopics DeleteRecords",
        "ALTER": "CreatePartitions",
        "DESCRIBE_CONFIGS": "DescribeConfigs",
        "ALTER_CONFIGS": "AlterConfigs IncrementalAlterConfigs",
        "DESCRIBE": "Metadata ListOffsets OffsetFetch OffsetForLeaderEpoch DescribeTopicPartitions",
    },
    _GROUP: {
        "READ": "JoinGroup SyncGroup Heartbeat LeaveGroup OffsetCommit TxnOffsetCommit AddOffsetsToTxn "
        "ConsumerGroupHeartbeat ShareGroupHeartbeat ShareFetch ShareAcknowledge AlterShareGroupOffsets "
        "StreamsGroupHeartbeat StreamsGroupTopologyDescriptionUpdate",
        "DELETE": "DeleteGroups OffsetDelete DeleteShareGroupOffsets",
        "DESCRIBE": "OffsetFetch FindCoordinator DescribeGroups ListGroups ConsumerGroupDescribe ShareGroupDescribe "
        "StreamsGroupDescribe DescribeShareGroupOffsets",
    },
    _CLUSTER: {
        "CREATE": "CreateTopics Metadata",
        "IDEMPOTENT_WRITE": "Produce InitProducerId",
        "CLUSTER_ACTION": "Fetch",
        "DESCRIBE": "DescribeAcls DescribeLogDirs ListPartitionReassignments DescribeCluster DescribeQuorum "
        "DescribeUserScramCredentials",
        "ALTER": "CreateAcls DeleteAcls AlterReplicaLogDirs ElectLeaders AlterPartitionReassignments UpdateFeatures "
        "AlterUserScramCredentials UnregisterBroker",
        "DESCRIBE_CONFIGS": "DescribeConfigs DescribeClientQuotas",
        "ALTER_CONFIGS": "AlterConfigs IncrementalAlterConfigs AlterClientQuotas",
    },
    _TRANSACTION: {
        "WRITE": "Produce InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn TxnOffsetCommit",
        "DESCRIBE": "FindCoordinator DescribeTransactions",
    },
    _TOKEN: {"DESCRIBE": "DescribeDelegationToken"},
}


class _Denials(Recurrence):
    """Counts denials by server, client and resource."""


@rule(
    "X014",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    only=FrameFlags.REFUSED,
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def acl_denied(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client is not repeatedly denied access by the broker's ACLs.

    ## Why it matters
    A denied client usually retries forever or silently stops: a consumer reads nothing, a producer's records time out.
    The first two denials are info, because permissions are sometimes granted late.

    ## Usual cause
    A missing ACL, an ACL for another principal than the one that logs in (User:alice and User:CN=alice differ), or a
    literal name where a prefix was meant. Brokers also answer this way for topics that do not exist.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 29}]}
    ```
    ```story
    > JoinGroup v5 {"group_id": "billing", "session_timeout_ms": 10000}
    < {"error_code": 30}
    ```

    ## Look-alikes
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 3}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#operations_resources_and_protocols
    https://github.com/strimzi/strimzi-kafka-operator/issues/9261
    """
    message = event.message
    if message is None:
        return
    reported: set[tuple[int, str]] = set()
    for error in summary.errors(message):
        if error.code not in _RESOURCES or is_idempotent_write(event, error.code):
            continue
        name = _resource_name(error.code, error.path, event, connection)
        if (error.code, name) in reported or len(reported) == _MAX_REPORTED:
            continue
        reported.add((error.code, name))
        kind = _RESOURCES[error.code][0]
        resource = f"{kind} {name!r}" if name else kind
        operation = _needed_operation(error.code, message.api)
        client = principal_or_client(connection)
        sentence = f"{client} is not allowed to {operation} {resource}: {message.api} returned {error.name}"
        hint = f"grant {operation} on {resource} (kafka-acls --add), or check which principal the client logs in as"
        location = locate(message, *re.findall(r"[^.\[\]]+", error.path))
        key = (connection.server, host_of(connection.client), connection.client_id, error.code, name)
        times = connection.run.state(_Denials).count(key, event.at)
        if times < _THRESHOLD:
            yield Problem(sentence, severity=Severity.INFO, hint=hint, cause=resource, **location)
        else:
            yield Problem(f"{sentence} ({times} times)", hint=hint, cause=f"{resource} again", **location)


def is_idempotent_write(event: ResponseReceived, code: int | None) -> bool:
    """Whether a producer without a transactional id was denied a producer id, which X015 reports."""
    request_body, message = event.request_body, event.message
    if code != _CLUSTER or message is None or message.api != "InitProducerId" or request_body is None:
        return False
    return request_body.get("transactional_id") is None


def principal_or_client(connection: ConnectionState) -> str:
    """Return the principal if the login revealed it, else the client id and host."""
    if principal := connection.state(Authentication).principal:
        return repr(principal)
    host = host_of(connection.client)
    return f"client {connection.client_id!r}" + (f" at {host}" if host else "")


def _needed_operation(code: int, api: str) -> str:
    return next((operation for operation, apis in _OPERATIONS[code].items() if api in apis.split()), "use")


def _resource_name(code: int, path: str, event: ResponseReceived, connection: ConnectionState) -> str:
    """Return the name of the resource that an error code is about; empty if no field has it."""
    assert event.message is not None
    fields = _RESOURCES[code][1]
    value: Any = event.message.body
    resource_name: Any = None
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, dict):
            resource_name = _first_value(value, fields) or resource_name
            value = value.get(part)
        elif isinstance(value, list):
            value = value[int(part)]
    if not resource_name and event.request_body is not None:
        resource_name = _first_value(event.request_body, fields)
    if code == _TOPIC and isinstance(resource_name, str):
        return connection.run.topic_names.get(resource_name, resource_name)
    return resource_name if isinstance(resource_name, str) else ""


def _first_value(values: dict[str, Any], fields: tuple[str, ...]) -> Any:
    return next((values[name] for name in fields if values.get(name)), None)
