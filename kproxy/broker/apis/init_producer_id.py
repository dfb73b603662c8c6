"""InitProducerId: assigns a producer id and epoch, and fences the previous owner of the transactional id.

Leaves out: two-phase commit (KIP-939), which is unfinished in Kafka too: v6 is not supported.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, is_allowed, is_allowed_on_any, require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.transactions import NO_PRODUCER, Producer, Transactions
from kproxy.broker.transactions.responses import coordinated_transactions, error_for_version


@api("InitProducerId")
def init_producer_id(request: Request) -> Body:
    """Return the producer id and epoch."""
    try:
        producer = _init_producer(request)
    except ApiError as api_error:
        error = error_for_version(api_error.error, is_known=request.version >= 4)
        return {"error_code": error, "producer_id": NO_PRODUCER, "producer_epoch": NO_PRODUCER}
    return {"producer_id": producer.id, "producer_epoch": producer.epoch}


def _init_producer(request: Request) -> Producer:
    body = request.body
    transactional_id = body["transactional_id"]
    if transactional_id is not None:
        require(request, "WRITE", "TRANSACTIONAL_ID", transactional_id)
    elif not is_allowed(request, "IDEMPOTENT_WRITE", "CLUSTER", CLUSTER) and not is_allowed_on_any(
        request, "WRITE", "TOPIC"
    ):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED)
    producer = Producer(body.get("producer_id", NO_PRODUCER), body.get("producer_epoch", NO_PRODUCER))
    if (producer.id == NO_PRODUCER) != (producer.epoch == NO_PRODUCER):
        raise ApiError(Error.INVALID_REQUEST)
    if transactional_id is None:
        return request.cluster.part(Transactions).begin()
    expected = None if producer.id == NO_PRODUCER else producer
    transactions = coordinated_transactions(request, transactional_id)
    return transactions.init(transactional_id, body["transaction_timeout_ms"], expected)
