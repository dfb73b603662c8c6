"""T002: a transaction that its coordinator is about to abort."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed
from dissectors.findings import Problem, Severity
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.rules.helpers.transaction_texts import producer_text, state_text
from dissectors.trackers.partitions import label
from dissectors.trackers.producers import Producers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OPEN_DEADLINE, SHARE


@rule(
    "T002",
    severity=Severity.WARNING,
    events=(DeadlinePassed,),
    deadline=OPEN_DEADLINE,
    limits=(SHARE,),
    needs=(Producers,),
    since="0.1",
    blame="client",
)
def transaction_open_long(event: DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that transactions end before three quarters of their timeout.

    ## Why it matters
    After transaction.timeout.ms, the coordinator aborts the transaction and fences its producer: all its work is lost,
    and most clients then fail for good. Until it ends, consumers that read committed records get nothing after it.

    ## Usual cause
    Work between begin and commit that takes too long, a producer that hangs or has crashed, a commit that was skipped
    because of an exception, or a timeout that is too short for the commit interval.

    ## Example
    ```story
    > InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
      "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    < {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
    +50s
    > Metadata v9 {"topics": []}
    ```

    With KIP-890, a transaction begins with its first batch:
    ```story
    > InitProducerId v5 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > Produce v12 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records":
      [{"is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 0, "records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"base_offset": 0}]}]}
    +50s
    > Metadata v9 {"topics": []}
    ```

    ## Look-alikes
    The transaction ends, and another one begins:
    ```story
    > InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
      "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    < {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
    +40s
    > EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": true}
    < {}
    > AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
      "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    < {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
    +40s
    > EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": true}
    < {}
    +60s
    > Metadata v9 {"topics": []}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_transaction.timeout.ms
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-890%3A+OpenTransactions+Server-Side+Defense
    """
    producer, begun_at = event.about
    if producer.begun_at != begun_at:
        return
    partition_names = [label(topic_partition, connection) for topic_partition in list(producer.partitions)[:3]]
    more_count = len(producer.partitions) - len(partition_names)
    partitions_text = ", ".join(partition_names) + (
        f" and {count_text(more_count, 'more partition')}" if more_count > 0 else ""
    )
    yield Problem(
        f"the transaction of {producer_text(producer)}{f' with {partitions_text}' if partitions_text else ''} "
        f"{state_text(producer, event.at, connection)}",
        hint="commit or abort sooner, or raise transaction.timeout.ms: the coordinator aborts it and fences the "
        "producer then",
        expected=f"an end within {connection.run.limit(SHARE):g}% of transaction.timeout.ms",
        once_per=producer.name,
    )
