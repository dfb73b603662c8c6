"""DescribeTransactions: returns the state of transactional ids and the partitions in their transactions.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from kproxy.broker.access import is_allowed, require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.transactions.offsets_partitions import offsets_partition
from kproxy.broker.transactions.responses import coordinated_transactions


@api("DescribeTransactions")
async def describe_transactions(request: Request) -> Body:
    """Return the description of each transactional id, in request order."""
    return {
        "transaction_states": [
            _describe(request, transactional_id) async for transactional_id in paced(request.body["transactional_ids"])
        ]
    }


def _describe(request: Request, transactional_id: str) -> Mapping[str, Any]:
    try:
        require(request, "DESCRIBE", "TRANSACTIONAL_ID", transactional_id)
        transaction = coordinated_transactions(request, transactional_id).by_id(transactional_id)
        if transaction is None:
            raise ApiError(Error.TRANSACTIONAL_ID_NOT_FOUND)
    except ApiError as api_error:
        return {"transactional_id": transactional_id, "error_code": api_error.error}
    topic_partitions = transaction.partitions | {
        offsets_partition(request.cluster, group) for group in transaction.groups
    }
    return {
        "transactional_id": transactional_id,
        "transaction_state": transaction.state,
        "transaction_timeout_ms": transaction.timeout_ms,
        "transaction_start_time_ms": transaction.started_at,
        "producer_id": transaction.producer.id,
        "producer_epoch": transaction.producer.epoch,
        "topics": [
            {"topic": topic, "partitions": [index for _, index in partitions]}
            for topic, partitions in groupby(sorted(topic_partitions), key=lambda topic_partition: topic_partition[0])
            if is_allowed(request, "DESCRIBE", "TOPIC", topic)
        ],
    }
