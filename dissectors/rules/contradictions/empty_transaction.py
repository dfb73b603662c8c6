"""S073: a producer that commits a transaction to which it has added nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.summary import transactional_id
from dissectors.rules import rule
from dissectors.trackers.losses import LossCheck, Losses
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger
from dissectors.trackers.versions import client_key

_MAX_PRODUCERS = 10_000

#: Since this version of EndTxn (KIP-890), brokers add partitions to a transaction without a request from the producer.
_IMPLICIT_SINCE = 5

_ADDING_APIS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit")


class _Transactions:
    """Whether anything was added to each transaction that has begun, by client and transactional id."""

    def __init__(self) -> None:
        self.filled: BoundedDict[tuple[Any, str], bool] = BoundedDict(_MAX_PRODUCERS)
        self.losses = LossCheck()


@rule(
    "S073",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("EndTxn", *_ADDING_APIS),
    also=(Trigger((ResponseReceived,), ("InitProducerId", "EndTxn")),),
    needs=(Losses,),
    since="0.1",
    blame="client",
)
def empty_transaction(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a producer commits only transactions to which it has added a partition or offsets.

    ## Why it matters
    For the coordinator, the transaction has not begun: it answers INVALID_TXN_STATE, and the client fails, often for
    good. Other coordinators accept it, so the bug appears only after a switch to another broker.

    ## Usual cause
    A client that sends EndTxn without checking whether AddPartitionsToTxn or AddOffsetsToTxn was sent before: a poll
    without records, or a flush that sent nothing. With EndTxn version 5 and later, brokers add partitions themselves.

    ## Example
    ```story
    > InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": true}
    < {"error_code": 48}
    ```

    ## Look-alikes
    ```story
    > InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > AddOffsetsToTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "group_id": "g"}
    < {}
    > EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": true}
    < {}
    > EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": false}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_EndTxn
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-890%3A+Transactions+Server-Side+Defense
    """
    transactions = connection.run.state(_Transactions)
    filled = transactions.filled
    if transactions.losses.is_outdated(connection):
        filled.clear()  # requests may have been among the lost bytes
    message = event.message if isinstance(event, RequestReceived) else event.request.message if event.request else None
    name = transactional_id(message) if message is not None else None
    if message is None or name is None:
        return
    key = client_key(connection), name
    if isinstance(event, ResponseReceived):
        if event.message is not None and not event.message.body.get("error_code"):
            filled[key] = False
    elif message.api in _ADDING_APIS:
        filled[key] = True
    elif message.version < _IMPLICIT_SINCE and message.body.get("committed") and filled.get(key) is False:
        yield Problem(
            f"the producer commits a transaction of transactional id {name!r} to which it has added no partition and "
            "no offsets",
            **locate(message, "committed"),
            hint="fix the client: it must not send EndTxn before AddPartitionsToTxn or AddOffsetsToTxn; Kafka answers "
            "INVALID_TXN_STATE",
            cause=name,
        )
