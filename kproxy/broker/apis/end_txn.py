"""EndTxn: commits or aborts a transaction; the markers are written after the response is sent.

Leaves out: nothing. From v5 on every end increments the producer's epoch (KIP-890).
"""

from __future__ import annotations

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError
from kproxy.broker.log.logs import Logs
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.transactions import EPOCH_BUMP_VERSION, Producer
from kproxy.broker.transactions.responses import coordinated_transactions, error_for_version


@api("EndTxn")
async def end_txn(request: Request) -> Body:
    """Return the error code and, from v5 on, the producer's new id and epoch."""
    body = request.body
    transactional_id = body["transactional_id"]
    try:
        require(request, "WRITE", "TRANSACTIONAL_ID", transactional_id)
        producer = coordinated_transactions(request, transactional_id).end(
            transactional_id,
            Producer(body["producer_id"], body["producer_epoch"]),
            commit=body["committed"],
            version=EPOCH_BUMP_VERSION if request.version >= 5 else 0,
        )
        await request.cluster.part(Logs).wait_until_synced()  # the markers
    except ApiError as api_error:
        return {"error_code": error_for_version(api_error.error, is_known=request.version >= 2)}
    return {"producer_id": producer.id, "producer_epoch": producer.epoch}
