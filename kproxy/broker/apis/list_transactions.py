"""ListTransactions: returns the transactional ids coordinated here, by state, producer, duration or pattern.

Leaves out: patterns that need backtracking (look-around, back-references); they are treated as invalid.
"""

from __future__ import annotations

from collections.abc import Callable

from kproxy.broker.access import is_allowed
from kproxy.broker.coordinators import find_coordinator_node
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.transactions import Transaction, Transactions, TransactionState
from kproxy.filters.pattern import PatternError, compile_pattern


@api("ListTransactions")
def list_transactions(request: Request) -> Body:
    """Return the transactional ids that match all filters, and the unknown states in the request."""
    body = request.body
    states, producer_ids = body["state_filters"], body["producer_id_filters"]
    pattern = body.get("transactional_id_pattern")
    try:
        matches_pattern = compile_pattern(f"^({pattern})$" if pattern else "")
    except PatternError:
        return {"error_code": Error.INVALID_REGULAR_EXPRESSION}
    is_old_enough = _duration_filter(request, body.get("duration_filter", -1))

    def matches(transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer.id in producer_ids)
            and (not states or transaction.state in states)
            and is_old_enough(transaction)
            and matches_pattern(transaction.id)
            and find_coordinator_node(request.cluster, transaction.id) is request.node
            and is_allowed(request, "DESCRIBE", "TRANSACTIONAL_ID", transaction.id)
        )

    known_states = {transaction_state.value for transaction_state in TransactionState}
    return {
        "unknown_state_filters": [state for state in dict.fromkeys(states) if state not in known_states],
        "transaction_states": [
            {
                "transactional_id": transaction.id,
                "producer_id": transaction.producer.id,
                "transaction_state": transaction.state,
            }
            for transaction in request.cluster.part(Transactions)
            if matches(transaction)
        ],
    }


def _duration_filter(request: Request, min_duration_ms: int) -> Callable[[Transaction], bool]:
    now_ms = request.cluster.clock.now()
    return lambda transaction: min_duration_ms < 0 or now_ms - transaction.started_at > min_duration_ms
