"""Code shared by the transaction APIs: the coordinator check, and the error for fenced producers."""

from __future__ import annotations

from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.request import Request
from kproxy.broker.transactions.coordinator import Transactions


def coordinated_transactions(request: Request, transactional_id: str) -> Transactions:
    """Return the transactions if this broker coordinates the transactional id.

    Raises:
        ApiError: INVALID_REQUEST if the id is empty, NOT_COORDINATOR.
    """
    if not transactional_id:
        raise ApiError(Error.INVALID_REQUEST)
    check_coordinator(request, transactional_id)
    return request.cluster.part(Transactions)


def error_for_version(error: Error, *, is_known: bool) -> Error:
    """Return the error, or an older one for PRODUCER_FENCED if the request's version does not define that."""
    return Error.INVALID_PRODUCER_EPOCH if error is Error.PRODUCER_FENCED and not is_known else error
