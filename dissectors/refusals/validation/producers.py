"""Checks of requests from producers, and from consumers to the leader of a partition.

Sources: KafkaApis.handleProduceRequest and handleListOffsetRequest, ProduceRequest.validateRecords,
TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dissectors.refusals.validation.violation import Values, Violation, rows, validates
from dissectors.schemas.codes import Error


@validates("Produce")
def check_produce(body: Values, _: int) -> Iterator[Violation]:
    """Check that acks has one of its three values, and is all in a transaction."""
    if (acks := body.get("acks", -1)) not in (-1, 0, 1):
        yield Violation(Error.INVALID_REQUIRED_ACKS, f"acks is {acks}", "set acks to -1 (all), 0 or 1")
    if body.get("transactional_id") is not None and acks != -1:
        yield Violation(
            Error.INVALID_REQUEST, f"acks is {acks} although transactional_id is set", "use acks=all in transactions"
        )


@validates("InitProducerId")
def check_init_producer_id(body: Values, _: int) -> Iterator[Violation]:
    """Check the transactional id and timeout, and that the producer id and epoch are both set or both absent."""
    if body.get("transactional_id") == "":
        yield Violation(Error.INVALID_REQUEST, "transactional_id is empty", "send null, or a text that is not empty")
    producer_id, epoch = body.get("producer_id", -1), body.get("producer_epoch", -1)
    if (producer_id == -1) != (epoch == -1):
        yield Violation(
            Error.INVALID_REQUEST, f"producer_id is {producer_id}, but producer_epoch is {epoch}",
            "send both producer_id and producer_epoch, or -1 for both",
        )  # fmt: skip
    if body.get("transactional_id") and (timeout := body.get("transaction_timeout_ms", 1)) <= 0:
        yield Violation(
            Error.INVALID_TRANSACTION_TIMEOUT, f"transaction_timeout_ms is {timeout}", "set a positive timeout"
        )


@validates("ListOffsets")
def check_list_offsets(body: Values, _: int) -> Iterator[Violation]:
    """Check that no partition is requested twice, which would make its result ambiguous."""
    counts = Counter(
        (topic.get("name", ""), row.get("partition_index", 0))
        for topic in rows(body, "topics")
        for row in rows(topic, "partitions")
    )
    for (topic, partition), times in counts.items():
        if times > 1:
            yield Violation(
                Error.INVALID_REQUEST, f"partition {topic}[{partition}] is in the request {times} times",
                "ask for each partition once", topic,
            )  # fmt: skip
