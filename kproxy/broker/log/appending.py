"""Appends a client's batches to a log, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kproxy.broker.log.validation import prepare

if TYPE_CHECKING:
    from kproxy.broker.log.log import Log
    from kproxy.broker.log.settings import LogSettings


class AppendResult(NamedTuple):
    """The first appended offset (-1 if there was nothing), and the LogAppendTime in ms (-1 if it is not used).

    A duplicate always has a time, as in Kafka.
    """

    base_offset: int
    append_time: int


def append(log: Log, data: memoryview, settings: LogSettings, now: int) -> AppendResult:
    """Validate record data and append it; a batch that its producer has already sent gets its original result.

    Args:
        log: The partition's log.
        data: See `prepare`.
        settings: The topic's settings.
        now: The time for LogAppendTime, in ms.

    Raises:
        ApiError: See `prepare` and `ProducerStates.check`; also KAFKA_STORAGE_ERROR.
    """
    prepared = prepare(data, settings, now, log.name)
    if prepared is None:
        return AppendResult(-1, -1)
    offset = log.end_offset
    if prepared.header.producer_id >= 0:
        duplicate = log.producers.find_duplicate(prepared.header)
        if duplicate is not None:
            return AppendResult(duplicate.base_offset, duplicate.timestamp)
        log.producers.check(prepared.header, offset)
    log.append(prepared.with_offset(offset, log.epochs.latest))
    return AppendResult(offset, prepared.append_time)
