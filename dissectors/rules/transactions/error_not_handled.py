"""T005: a producer that leaves its transaction open after an error."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.transaction_texts import producer_text
from dissectors.schemas import error_name
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import NOT_ENDED_DEADLINE


@rule(
    "T005",
    severity=Severity.WARNING,
    events=(DeadlinePassed,),
    deadline=NOT_ENDED_DEADLINE,
    since="0.1",
    blame="client",
)
def error_not_handled(event: DeadlinePassed, _connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a producer aborts its transaction, or gets a new epoch, after an error that waiting does not resolve.

    ## Why it matters
    The transaction can no longer be committed. Until the coordinator aborts it after transaction.timeout.ms, consumers
    that read committed records get nothing after it, and the producer makes no progress.

    ## Usual cause
    An application that catches the error of a send and continues as if nothing had happened, or a client that is
    stuck. It must call abortTransaction and, if that fails, close the producer and create a new one, which calls
    InitProducerId.

    ## Example
    ```story
    > InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 1}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "g"}
    < {}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "h"}
    < {"error_code": 30}
    +21s
    > Metadata v9 {"topics": []}
    ```
    ```story
    > InitProducerId v5 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 1}
    > Produce v12 {"transactional_id": "pay", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records":
      [{"is_transactional": true, "producer_id": 4000, "producer_epoch": 1, "base_sequence": 0, "records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}
    +21s
    > Metadata v9 {"topics": []}
    ```

    ## Look-alikes
    A producer that aborts; an error that resolves itself; and a producer that is gone:
    ```story
    > InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 1}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "g"}
    < {}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "h"}
    < {"error_code": 30}
    > EndTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": false}
    < {}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "g"}
    < {}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "h"}
    < {"error_code": 51}
    +21s
    > Metadata v9 {"topics": []}
    ```
    ```story
    > InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 1}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "g"}
    < {}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "h"}
    < {"error_code": 30}
    close
    +21s
    2> Metadata v9 {"topics": []}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-691%3A+Enhance+Transactional+Producer+Exception+Handling
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1050%3A+Consistent+error+handling+for+Transactions
    """
    producer, refused = event.about
    if producer.refused is not refused or producer.gone_at is not None:
        return
    yield Problem(
        f"{producer_text(producer)} has left its transaction open since {refused.api} was refused with "
        f"{error_name(refused.code)} {duration(event.at - refused.at)} ago: it neither aborted it nor called "
        "InitProducerId",
        hint="make the application abort the transaction after an error of the producer; if that fails, close the "
        "producer and create a new one",
        cause=producer.name,
        once_per=producer.name,
    )
