"""T007: a producer that commits transactions without records and without new offsets."""

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

COMMITS = Limit(
    "commits", 10, "commits", "so many transactions in a row are committed without a record or a new offset"
)


@rule(
    "T007",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("EndTxn",),
    limits=(COMMITS,),
    needs=(OpenTransactions,),
    since="0.1",
    blame="client",
)
def empty_commits(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers that commit one empty transaction after another.

    ## Why it matters
    A commit costs several requests, writes to the transaction log, and a marker in each partition, including the one
    with the group's offsets. Without records or progress of the group, it does nothing. Transactions of version 2
    (KIP-890) are not counted: their partitions are known only from records, which may go to other brokers.

    ## Usual cause
    A loop that commits a transaction after each poll, even if the poll returned no records. Kafka's own clients send
    nothing at all if the transaction is empty, but they do if it has offsets, even if these are the same as before.

    ## Example
    ```story
    rule T007:commits=2
    > InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 1}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {}
    ```

    ## Look-alikes
    ```story
    rule T007:commits=2
    > InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 1}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {}
    > AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay", "v3_and_below_producer_id": 4000,
      "v3_and_below_producer_epoch": 1, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    < {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_EndTxn
    """
    message = event.message
    name = transactional_id(event.request.message) if event.request is not None else None
    producer = connection.run.state(OpenTransactions).producers.get(name or "")
    if message is None or producer is None or errors(message):
        return
    if producer.empty_commits != connection.run.limit(COMMITS):
        return
    yield Problem(
        f"{producer_text(producer)} committed {producer.empty_commits} transactions in a row without a record or a new "
        f"offset, within {duration(event.at - producer.empty_since)}",
        **locate(message),
        hint="begin a transaction, or commit it, only if a poll has brought records",
        cause=producer.name,
        once_per=producer.name,
    )
