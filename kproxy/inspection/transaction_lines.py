"""The columns of trace lines about transactions."""

from __future__ import annotations

from collections.abc import Mapping

from dissectors.messages.message import Message
from dissectors.messages.transaction_facts import partition_ends, producer_of
from kproxy.trace.lines import HeldEntry, MarkerEntry, RequestLine, ResponseLine


def add_transaction(line: RequestLine, message: Message) -> None:
    """Add the producer whose transaction a request is about, and what the request asks for."""
    if (producer := producer_of(message)) is not None:
        line.producer_id, line.producer_epoch = producer
    line.committed = message.body.get("committed")
    line.transaction_timeout_ms = message.body.get("transaction_timeout_ms")


def add_response(line: ResponseLine, request_line: RequestLine, message: Message) -> None:
    """Add the columns of the request, and the producer id and epoch that a response assigns."""
    line.producer_id, line.producer_epoch = request_line.producer_id, request_line.producer_epoch
    line.committed, line.transaction_timeout_ms = request_line.committed, request_line.transaction_timeout_ms
    if "producer_epoch" in message.body and (assigned := producer_of(message)) is not None:
        line.producer_id, line.producer_epoch = assigned


def add_ends(line: RequestLine | ResponseLine, message: Message, topic_names: Mapping[str, str]) -> None:
    """Add markers, and the partitions that an open transaction holds."""
    ends = partition_ends(message)
    if ends.markers:
        line.markers = [
            MarkerEntry(topic_names.get(marker.topic, marker.topic), *marker[1:]) for marker in ends.markers
        ]
    if ends.held and isinstance(line, ResponseLine):
        line.held = [
            HeldEntry(
                topic_names.get(partition.topic, partition.topic), partition.partition, partition.last_stable_offset,
                partition.high_watermark,
                *((partition.producer_id, partition.producer_epoch) if partition.producer_id >= 0 else (None, None)),
            )
            for partition in ends.held
        ]  # fmt: skip
