"""What the APIs of transactions share: whether this broker answers, and how a fenced producer is told."""

from __future__ import annotations

from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import Error, Refused
from kproxy.broker.request import Request
from kproxy.broker.transactions.coordinator import Transactions


def coordinated(request: Request, transactional_id: str) -> Transactions:
    """The transactions, for a request about one that the broker that was asked coordinates.

    Raises:
        Refused: INVALID_REQUEST if the id is empty, NOT_COORDINATOR.
    """
    if not transactional_id:
        raise Refused(Error.INVALID_REQUEST)
    check_coordinator(request, transactional_id)
    return request.cluster.part(Transactions)


def fenced_as(error: Error, *, known: bool) -> Error:
    """The error, with the older one for PRODUCER_FENCED where the version of the request does not have that."""
    return Error.INVALID_PRODUCER_EPOCH if error is Error.PRODUCER_FENCED and not known else error
