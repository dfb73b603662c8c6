"""AddOffsetsToTxn: adds a consumer group, whose offsets will be committed, to a transaction.

Leaves out: nothing. DescribeTransactions shows the group as the partition of __consumer_offsets that Kafka would store
it in.
"""

from __future__ import annotations

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.transactions import Producer
from kproxy.broker.transactions.responses import coordinated_transactions, error_for_version


@api("AddOffsetsToTxn")
def add_offsets_to_txn(request: Request) -> Body:
    """Add the group, and return the error code."""
    body = request.body
    transactional_id, group = body["transactional_id"], body["group_id"]
    try:
        require(request, "WRITE", "TRANSACTIONAL_ID", transactional_id)
        require(request, "READ", "GROUP", group)
        producer = Producer(body["producer_id"], body["producer_epoch"])
        coordinated_transactions(request, transactional_id).add(transactional_id, producer, groups=(group,))
    except ApiError as api_error:
        return {"error_code": error_for_version(api_error.error, is_known=request.version >= 2)}
    return {}
