"""Appending: what a client sent goes to the end of a log, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kproxy.broker.log.validation import prepare

if TYPE_CHECKING:
    from kproxy.broker.log.log import Log
    from kproxy.broker.log.settings import LogSettings


class AppendResult(NamedTuple):
    """The first offset of what was appended, -1 if there was nothing; its LogAppendTime in ms, -1 without.

    A duplicate always has a time, as in Kafka.
    """

    base_offset: int
    append_time: int


def append(log: Log, data: memoryview, settings: LogSettings, now: int) -> AppendResult:
    """Check record data and append it; a batch that its producer repeats gets the answer that it got before.

    Args:
        log: Of the partition.
        data: As `prepare` takes it.
        settings: Of the topic.
        now: For LogAppendTime, ms.

    Raises:
        Refused: As `prepare` and `Producers.check` say; KAFKA_STORAGE_ERROR.
    """
    prepared = prepare(data, settings, now, log.name)
    if prepared is None:
        return AppendResult(-1, -1)
    offset = log.end_offset
    if prepared.header.producer_id >= 0:
        sent = log.producers.duplicate(prepared.header)
        if sent is not None:
            return AppendResult(sent.base_offset, sent.timestamp)
        log.producers.check(prepared.header, offset)
    log.append(prepared.at(offset, log.epochs.latest))
    return AppendResult(offset, prepared.append_time)
