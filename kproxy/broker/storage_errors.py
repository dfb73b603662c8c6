"""The responses to requests whose changes could not be stored, e.g. because the disk is full.

A group or transaction coordinator of Kafka that cannot write its log responds with NOT_COORDINATOR, so that clients
look for the coordinator again and retry (org.apache.kafka.coordinator.group.GroupCoordinatorService,
kafka.coordinator.transaction.TransactionStateManager). A KRaft controller that cannot write its log stops; its
clients get KAFKA_STORAGE_ERROR here, as from a partition whose log directory is offline; they also retry that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dissectors import schemas
from dissectors.wire.layout import Layout, layout
from kproxy.broker.errors import Error, message_of
from kproxy.broker.registry import Body
from kproxy.broker.request import Request

#: The APIs that change stored data, with the error code that they return if storing fails.
CODES: Final[Mapping[str, Error]] = {
    **dict.fromkeys(
        (
            "AddOffsetsToTxn", "AddPartitionsToTxn", "AlterShareGroupOffsets", "ConsumerGroupHeartbeat",
            "DeleteGroups", "DeleteShareGroupOffsets", "DeleteShareGroupState", "EndTxn", "Heartbeat", "InitProducerId",
            "InitializeShareGroupState", "JoinGroup", "LeaveGroup", "OffsetCommit", "OffsetDelete",
            "ReadShareGroupState", "ShareGroupHeartbeat", "SyncGroup", "TxnOffsetCommit", "WriteShareGroupState",
        ),
        Error.NOT_COORDINATOR,
    ),
    **dict.fromkeys(("FindCoordinator", "ShareAcknowledge", "ShareFetch"), Error.COORDINATOR_NOT_AVAILABLE),
    **dict.fromkeys(
        (
            "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments", "AlterUserScramCredentials",
            "CreateAcls", "CreateDelegationToken", "CreatePartitions", "CreateTopics", "DeleteAcls", "DeleteRecords",
            "DeleteTopics", "ElectLeaders", "ExpireDelegationToken", "IncrementalAlterConfigs",
            "RenewDelegationToken", "UpdateFeatures", "WriteTxnMarkers",
        ),
        Error.KAFKA_STORAGE_ERROR,
    ),
}  # fmt: skip
_NAME_BY_KEY: Final = {api.key: name for name in CODES if (api := schemas.api_by_name(name)) is not None}
#: The names of error code fields; the second is in the partitions of AddPartitionsToTxn.
_ERROR_FIELDS: Final = ("error_code", "partition_error_code")


def may_write(request: Request) -> bool:
    """Whether the request may change stored data, so that its response must wait for the disk."""
    return request.api_key in _NAME_BY_KEY


def with_storage_error(request: Request, response: Body) -> Body:
    """Return the response with an error code: at the top level if there is one, else in each entry without an error."""
    name = _NAME_BY_KEY[request.api_key]
    error = CODES[name]
    if name == "InitProducerId" and request.body["transactional_id"] is None:
        error = Error.COORDINATOR_LOAD_IN_PROGRESS  # kafka.coordinator.transaction.RPCProducerIdManager
    response_layout = layout(f"{name}Response", request.version)
    if "error_code" in {field.name for field in response_layout.fields}:
        return response if response and response.get("error_code") else _error_fields(response_layout, error)
    return _with_nested_error(response_layout, response or {}, error)


def _with_nested_error(struct: Layout, values: Mapping[str, Any], error: Error) -> Mapping[str, Any]:
    """Return a struct with the error code in it, or in each struct of its arrays; existing errors are kept."""
    if fields := _error_fields(struct, error):
        return values if any(values.get(name) for name in _ERROR_FIELDS) else {**values, **fields}
    entries = {
        field.name: [_with_nested_error(field.struct, element, error) for element in values.get(field.name) or ()]
        for field in struct.fields
        if field.array and field.struct is not None
    }
    return {**values, **entries}


def _error_fields(struct: Layout, error: Error) -> Mapping[str, Any]:
    values = {"error_code": error, "partition_error_code": error, "error_message": message_of(error)}
    names = {field.name for field in struct.fields}
    return {name: value for name, value in values.items() if name in names} if names & {*_ERROR_FIELDS} else {}
