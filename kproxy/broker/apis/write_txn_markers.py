"""WriteTxnMarkers: ends transactions in single partitions, as sent by brokers and `kafka-transactions.sh abort`.

Leaves out: nothing. In a partition of __consumer_offsets, it ends the staged offsets of its groups; the partition has
no records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.offsets import Offsets, TopicPartition
from kproxy.broker.log.logs import Logs
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import EPOCH_BUMP_VERSION
from kproxy.broker.transactions.offsets_partitions import OFFSETS_TOPIC, offsets_partition


@api("WriteTxnMarkers")
async def write_txn_markers(request: Request) -> Body:
    """Return the result for each partition, by producer."""
    results: dict[int, dict[str, dict[int, Error]]] = {}
    async for marker in paced(request.body["markers"]):
        async for topic in paced(marker["topics"]):
            async for index in paced(topic["partition_indexes"]):
                error = _end_transaction(request, marker, (topic["name"], index))
                results.setdefault(marker["producer_id"], {}).setdefault(topic["name"], {})[index] = error
    try:
        await request.cluster.part(Logs).wait_until_synced()  # the markers
        sync_error = Error.NONE
    except ApiError as api_error:
        sync_error = api_error.error
    return {
        "markers": [
            {
                "producer_id": producer_id,
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {"partition_index": index, "error_code": error or sync_error}
                            for index, error in partitions.items()
                        ],
                    }
                    for name, partitions in topics.items()
                ],
            }
            for producer_id, topics in results.items()
        ]
    }


def _end_transaction(request: Request, marker: Mapping[str, Any], topic_partition: TopicPartition) -> Error:
    sufficient_operations = ("ALTER", "CLUSTER_ACTION")
    if not any(is_allowed(request, operation, "CLUSTER", CLUSTER) for operation in sufficient_operations):
        return Error.CLUSTER_AUTHORIZATION_FAILED
    topics = request.cluster.part(Topics)
    producer_id, epoch = marker["producer_id"], marker["producer_epoch"]
    try:
        log = topics.find_led_partition(request.node, topics.find(topic_partition[0], None), topic_partition[1]).log
        if topic_partition[0] == OFFSETS_TOPIC:
            _complete_staged_offsets(request, marker, topic_partition)
            return Error.NONE
        state = log.producers.get(producer_id)
        is_ongoing = state is not None and state.transaction_start is not None and state.epoch == epoch
        if (
            is_ongoing and marker.get("transaction_version", 0) >= EPOCH_BUMP_VERSION
        ):  # ending it would have incremented the epoch
            raise ApiError(Error.INVALID_PRODUCER_EPOCH)
        log.append_marker(producer_id, epoch, marker["coordinator_epoch"], commit=marker["transaction_result"])
    except ApiError as api_error:
        return api_error.error
    return Error.NONE


def _complete_staged_offsets(request: Request, marker: Mapping[str, Any], topic_partition: TopicPartition) -> None:
    offsets = request.cluster.part(Offsets)
    for group in offsets.groups():
        if offsets_partition(request.cluster, group) == topic_partition:
            offsets.complete(marker["producer_id"], marker["producer_epoch"], group, marker["transaction_result"])
