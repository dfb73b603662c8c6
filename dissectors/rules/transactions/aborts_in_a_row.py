"""T004: a producer that aborts one transaction after another."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.locate import locate
from dissectors.messages.summary import errors, transactional_id
from dissectors.rules import rule
from dissectors.rules.helpers.transaction_texts import producer_text
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions

ABORTS = Limit("aborts", 5, "aborts", "so many transactions in a row are aborted, without a commit between them")


@rule(
    "T004",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("EndTxn",),
    limits=(ABORTS,),
    needs=(OpenTransactions,),
    since="0.1",
    blame="client",
)
def aborts_in_a_row(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a producer does not abort one transaction after another.

    ## Why it matters
    It makes no progress: consumers that read committed records get none of its records, while brokers store them all.

    ## Usual cause
    A record that the application cannot process and reads again after each abort, or an error that recurs in each
    transaction.

    ## Example
    ```story
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    ```

    ## Look-alikes
    ```story
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_EndTxn
    https://docs.spring.io/spring-kafka/reference/kafka/annotation-error-handling.html#after-rollback
    """
    message = event.message
    name = transactional_id(event.request.message) if event.request is not None else None
    producer = connection.run.state(OpenTransactions).producers.get(name or "")
    if message is None or producer is None or errors(message) or producer.aborts != connection.run.limit(ABORTS):
        return
    yield Problem(
        f"{producer_text(producer)} aborted {producer.aborts} transactions in a row, within "
        f"{duration(event.at - producer.aborts_since)}, and committed none",
        **locate(message),
        hint="find out from the application's log why it aborts; skip a record that fails each time, e.g. to a dead "
        "letter topic",
        cause=producer.name,
    )
