"""InitProducerId: assigns a producer id and epoch, and fences the previous owner of the transactional id.

Leaves out: two-phase commit (KIP-939), which is unfinished in Kafka too: v6 is not supported.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, allowed, allowed_some, require
from kproxy.broker.errors import Error, Refused
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.transactions import NOBODY, Producer, Transactions
from kproxy.broker.transactions.responses import coordinated, fenced_as


@api("InitProducerId")
def init_producer_id(request: Request) -> Body:
    """Return the producer id and epoch."""
    try:
        producer = _begun(request)
    except Refused as api_error:
        error = fenced_as(api_error.error, is_known=request.version >= 4)
        return {"error_code": error, "producer_id": NOBODY, "producer_epoch": NOBODY}
    return {"producer_id": producer.id, "producer_epoch": producer.epoch}


def _begun(request: Request) -> Producer:
    body = request.body
    transactional_id = body["transactional_id"]
    if transactional_id is not None:
        require(request, "WRITE", "TRANSACTIONAL_ID", transactional_id)
    elif not allowed(request, "IDEMPOTENT_WRITE", "CLUSTER", CLUSTER) and not allowed_some(request, "WRITE", "TOPIC"):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    producer = Producer(body.get("producer_id", NOBODY), body.get("producer_epoch", NOBODY))
    if (producer.id == NOBODY) != (producer.epoch == NOBODY):
        raise Refused(Error.INVALID_REQUEST)
    if transactional_id is None:
        return request.cluster.part(Transactions).begin()
    expected = None if producer.id == NOBODY else producer
    transactions = coordinated(request, transactional_id)
    return transactions.init(transactional_id, body["transaction_timeout_ms"], expected)
