"""S074: a transactional producer with an epoch that no coordinator gave it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.records.formats import TRANSACTIONAL
from dissectors.rules import rule
from dissectors.trackers.losses import LossCheck, Losses
from dissectors.trackers.producers import Producers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import client_key

_MAX_PRODUCERS = 10_000

#: The APIs whose responses give a producer its epoch. EndTxn does since version 5 (KIP-890).
_GRANTING_APIS = ("InitProducerId", "EndTxn")

#: The APIs whose requests contain the producer's epoch.
_USING_APIS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


class _GrantedEpochs:
    """The epoch that each client was last given for each producer id."""

    def __init__(self) -> None:
        self.epochs: BoundedDict[tuple[Any, int], int] = BoundedDict(_MAX_PRODUCERS)
        self.losses = LossCheck()


@rule(
    "S074",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=_USING_APIS,
    also=(
        Trigger((ResponseReceived,), _GRANTING_APIS, broken=True),
        Trigger((RequestReceived,), ("Produce",), only=FrameFlags.IRREGULAR | FrameFlags.RAISED),
    ),
    needs=(Losses, Producers),
    since="0.1",
    blame="client",
)
def epoch_nobody_gave(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a transactional producer uses only epochs that a coordinator gave it.

    ## Why it matters
    The transaction coordinator fences older producers by their epoch, and writes its markers with the epoch that it
    gave. With a different epoch, the partition leaders accept the records but the transaction does not end: the
    coordinator answers CONCURRENT_TRANSACTIONS or INVALID_PRODUCER_EPOCH from then on, and read_committed consumers
    wait.

    ## Usual cause
    A client that raises the epoch itself after an error such as UNKNOWN_PRODUCER_ID. A transactional producer must
    request it with InitProducerId, version 3 or later, with its current id and epoch (KIP-360). Only an idempotent
    producer without a transactional id may raise it by itself.

    ## Example
    ```story
    > InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 1, "committed": true}
    ```
    ```story
    > InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > Produce v7 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 0, "records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 59, "base_offset": -1}]}]}
    > Produce v7 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"is_transactional": true, "producer_id": 9001, "producer_epoch": 1, "base_sequence": 0, "records": [{}]}]}]}]}
    ```

    ## Look-alikes
    The coordinator gives the new epoch, in InitProducerId or at the end of a transaction (KIP-890); and an idempotent
    producer raises it itself:
    ```story
    > InitProducerId v4 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
    < {"producer_id": 9001, "producer_epoch": 0}
    > InitProducerId v4 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000, "producer_id": 9001,
      "producer_epoch": 0}
    < {"producer_id": 9001, "producer_epoch": 1}
    > EndTxn v5 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 1, "committed": true}
    < {"producer_id": 9001, "producer_epoch": 2}
    > EndTxn v5 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 2, "committed": true}
    < {"producer_id": 9001, "producer_epoch": 3}
    > InitProducerId v4 {"transactional_id": null}
    < {"producer_id": 9002, "producer_epoch": 0}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 9002, "producer_epoch": 0, "base_sequence": 0, "records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 59, "base_offset": -1}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 9002, "producer_epoch": 1, "base_sequence": 0, "records": [{}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-360%3A+Improve+reliability+of+idempotent%2Ftransactional+producer
    https://github.com/confluentinc/librdkafka/issues/2749
    """
    state = connection.run.state(_GrantedEpochs)
    epochs = state.epochs
    if state.losses.is_outdated(connection):
        epochs.clear()  # an epoch may have been among the lost bytes
    if isinstance(event, ResponseReceived):
        _learn_epoch(event, epochs, connection)
        return
    message, client = event.message, client_key(connection)
    for producer_id, epoch, path in _used_epochs(message) if epochs else ():
        granted_epoch = epochs.get((client, producer_id))
        if granted_epoch is None or epoch <= granted_epoch:
            continue
        yield Problem(
            f"producer {producer_id} uses epoch {epoch}, but InitProducerId gave it epoch {granted_epoch} and nothing "
            f"gave it {epoch}: the client has raised the epoch itself",
            **locate(message, *path),
            hint="fix or upgrade the client: a transactional producer gets a new epoch only from the coordinator, with "
            "InitProducerId v3 or later and its current producer id and epoch",
            expected=str(granted_epoch),
            got=str(epoch),
            once_per=(client, producer_id),
        )


def _learn_epoch(
    event: ResponseReceived, epochs: BoundedDict[tuple[Any, int], int], connection: ConnectionState
) -> None:
    message = event.message
    if message is None or message.diagnosis is not None or not message.well_formed or event.damaged:
        epochs.clear()
        return
    producer_id, epoch = message.body.get("producer_id", -1), message.body.get("producer_epoch", -1)
    if not message.body.get("error_code") and producer_id >= 0 and epoch >= 0:
        key = client_key(connection), producer_id
        epochs[key] = epoch if message.api == "InitProducerId" else max(epoch, epochs.get(key, 0))


def _used_epochs(message: Message) -> Iterator[tuple[int, int, tuple[str | int, ...]]]:
    """Yield the producer ids and epochs in a request from a transactional producer, with the path of each epoch."""
    if message.api == "Produce":
        for i, topic in enumerate(topic_records(message)):
            for j, partition in enumerate(topic.partitions):
                if (batch := partition.batch) is not None and batch.attributes & TRANSACTIONAL:
                    yield batch.producer_id, batch.producer_epoch, ("topic_data", i, "partition_data", j, "records")
        return
    for prefix in ("", "v3_and_below_"):
        if (epoch := message.body.get(f"{prefix}producer_epoch")) is not None:
            yield message.body.get(f"{prefix}producer_id", -1), epoch, (f"{prefix}producer_epoch",)
