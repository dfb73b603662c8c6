"""AddPartitionsToTxn: adds partitions to a transaction, or from v4 on verifies that they were added.

Leaves out: nothing. From v4 on it is sent by brokers, for several transactional ids at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kproxy.broker.access import CLUSTER, is_allowed, require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.offsets import TopicPartition
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import EPOCH_BUMP_VERSION, Producer, Transactions
from kproxy.broker.transactions.responses import coordinated_transactions, error_for_version

_V3_PREFIX: Final = "v3_and_below_"


@api("AddPartitionsToTxn")
def add_partitions_to_txn(request: Request) -> Body:
    """Return the error of each partition, in request order."""
    body = request.body
    if request.version < 4:
        transaction = {name.removeprefix(_V3_PREFIX): value for name, value in body.items()}
        response: Body = {"results_by_topic_v3_and_below": _transaction_results(request, transaction)}
    elif not is_allowed(request, "CLUSTER_ACTION", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED}
    else:
        results = [
            {
                "transactional_id": transaction["transactional_id"],
                "topic_results": _transaction_results(request, transaction),
            }
            for transaction in body["transactions"]
        ]
        response = {"results_by_transaction": results}
    return response


def _transaction_results(request: Request, entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    topic_partitions = [(topic["name"], index) for topic in entry["topics"] for index in topic["partitions"]]
    transactional_id, from_client = entry["transactional_id"], request.version < 4
    try:
        if from_client:
            require(request, "WRITE", "TRANSACTIONAL_ID", transactional_id)
        errors = {
            topic_partition: _check_partition(request, topic_partition, from_client)
            for topic_partition in topic_partitions
        }
        if any(errors.values()):  # all or nothing
            return _results(entry, lambda topic_partition: errors[topic_partition] or Error.OPERATION_NOT_ATTEMPTED)
        transactions = coordinated_transactions(request, transactional_id)
        producer = Producer(entry["producer_id"], entry["producer_epoch"])
        if not entry.get("verify_only"):
            transactions.add(
                transactional_id, producer, topic_partitions, version=0 if from_client else EPOCH_BUMP_VERSION
            )
            return _results(entry, lambda topic_partition: Error.NONE)
        verification_errors = {
            topic_partition: _verify(transactions, transactional_id, producer, topic_partition)
            for topic_partition in topic_partitions
        }
        return _results(entry, verification_errors.__getitem__)
    except ApiError as api_error:
        error = error_for_version(api_error.error, is_known=request.version >= 2)
        return _results(entry, lambda topic_partition: error)


def _check_partition(request: Request, topic_partition: TopicPartition, from_client: bool) -> Error:
    if from_client and not is_allowed(request, "WRITE", "TOPIC", topic_partition[0]):
        return Error.TOPIC_AUTHORIZATION_FAILED
    exists = request.cluster.part(Topics).partition(*topic_partition) is not None
    return Error.NONE if exists else Error.UNKNOWN_TOPIC_OR_PARTITION


def _verify(
    transactions: Transactions, transactional_id: str, producer: Producer, topic_partition: TopicPartition
) -> Error:
    try:
        transactions.verify(transactional_id, producer, topic_partition=topic_partition)
    except ApiError as api_error:
        return api_error.error
    return Error.NONE


def _results(entry: Mapping[str, Any], error: Callable[[TopicPartition], Error]) -> list[Mapping[str, Any]]:
    return [
        {
            "name": topic["name"],
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": error((topic["name"], index))}
                for index in topic["partitions"]
            ],
        }
        for topic in entry["topics"]
    ]
