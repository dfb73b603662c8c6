"""Acknowledgements of acquired records.

Source: Kafka's SharePartition.acknowledge, KafkaApis.validateAcknowledgementBatches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run
from kproxy.broker.shares.records import AcquiredRecords

RENEW: Final = 4
#: The state of records after each acknowledgement type: gap, accept, release, reject.
_STATES: Final = (RecordState.ARCHIVED, RecordState.ACKNOWLEDGED, RecordState.AVAILABLE, RecordState.ARCHIVED)


_BATCH_MESSAGES: Final = (
    "The batch cannot be acknowledged. The batch is not in the acquired state.",
    "Member is not the owner of batch record",
)
_OFFSET_MESSAGES: Final = (
    "The offset cannot be acknowledged. The offset is not acquired.",
    "Member is not the owner of offset",
)


class Acknowledgement(NamedTuple):
    """The acknowledgement of consecutive records: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def split_by_type(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first offset, last offset and type of each range of records with the same type."""
        if len(self.types) == 1:
            yield self.first, self.last, self.types[0]
            return
        first = self.first
        for kind, group in groupby(self.types):
            end = first + sum(1 for _ in group)
            yield first, end - 1, kind
            first = end


class AcknowledgementContext(NamedTuple):
    """The member that acknowledges, and the group's settings.

    Attributes:
        member: The member id.
        renewed_until: End of a renewed acquisition lock, in ms since the epoch; None if renewal is disabled.
        max_deliveries: Delivery limit of a record.
    """

    member: str
    renewed_until: int | None
    max_deliveries: int


def read_acknowledgements(
    batches: Sequence[Mapping[str, Any]], *, supports_renewal: bool, is_renewal: bool
) -> list[Acknowledgement]:
    """Parse the acknowledgements of one partition in a request.

    Args:
        batches: The request's batches.
        supports_renewal: Whether the request's version supports renewals.
        is_renewal: Whether the request declares renewals.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    previous_last, acknowledgements = -1, []
    for batch in batches:
        acknowledgement = Acknowledgement(batch["first_offset"], batch["last_offset"], batch["acknowledge_types"])
        is_ordered = previous_last <= acknowledgement.first <= acknowledgement.last
        has_matching_types = len(acknowledgement.types) in (1, acknowledgement.last - acknowledgement.first + 1)
        has_known_types = all(0 <= kind <= (RENEW if supports_renewal else RENEW - 1) for kind in acknowledgement.types)
        if not (is_ordered and has_matching_types and has_known_types) or (
            RENEW in acknowledgement.types and not is_renewal
        ):
            raise ApiError(Error.INVALID_REQUEST)
        previous_last = acknowledgement.last
        acknowledgements.append(acknowledgement)
    return acknowledgements


def acknowledge(
    records: AcquiredRecords, context: AcknowledgementContext, acknowledgements: Sequence[Acknowledgement]
) -> None:
    """Apply all of a member's acknowledgements, or none of them.

    Raises:
        ApiError: INVALID_RECORD_STATE, INVALID_REQUEST.
    """
    undo_functions: list[Callable[[], None]] = []
    try:
        for acknowledgement in acknowledgements:
            if acknowledgement.last >= records.start:
                for batch in _find_batches(records, acknowledgement):
                    undo_functions += _acknowledge_batch(records, context, acknowledgement, batch)
    except ApiError:
        for revert in undo_functions:
            revert()
        raise


def _find_batches(records: AcquiredRecords, acknowledgement: Acknowledgement) -> list[AcquiredBatch]:
    floor = records.floor(acknowledgement.first)
    if floor is None and acknowledgement.first < records.start <= acknowledgement.last:
        floor = records.floor(records.start)
    if floor is None:
        raise _invalid_state("Batch record not found. The request batch offsets are not found in the cache.")
    batches = records.between(floor.first, acknowledgement.last)
    message = "Batch record not found. The {} offset in request is past acquired records."
    if batches[-1].last < acknowledgement.first:
        raise ApiError(Error.INVALID_REQUEST, message.format("first"))
    if batches[-1].last < acknowledgement.last:
        raise ApiError(Error.INVALID_REQUEST, message.format("last"))
    return batches


def _acknowledge_batch(
    records: AcquiredRecords, context: AcknowledgementContext, acknowledgement: Acknowledgement, batch: AcquiredBatch
) -> list[Callable[[], None]]:
    """Apply an acknowledgement to the records of a batch; return functions that undo it."""
    first, last = max(acknowledgement.first, records.start), acknowledgement.last
    if batch.last < first:
        return []
    if not batch.split:
        _check_acquired(batch.runs, context, *_BATCH_MESSAGES)
    _check_acquired(batch.runs_between(first, last), context, *_OFFSET_MESSAGES)
    if RENEW in acknowledgement.types and context.renewed_until is None:
        raise _invalid_state("Renewing acquisition locks is not enabled for the group.")
    batch.split |= batch.first < first or batch.last > last or len(acknowledgement.types) > 1
    batch.split_at([start for start, _, _ in acknowledgement.split_by_type()])
    undo_functions: list[Callable[[], None]] = []
    for start, end, kind in acknowledgement.split_by_type():
        for run in batch.split_runs_between(max(start, first), end):
            undo_functions.append(functools.partial(run.set_state, run.state, run.member, run.until))
            if kind == RENEW:
                run.until = context.renewed_until or run.until
            else:
                run.end_acquisition(_STATES[kind], context.max_deliveries)
    return undo_functions


def _check_acquired(runs: Iterable[Run], context: AcknowledgementContext, not_acquired: str, not_owned: str) -> None:
    """Raise `ApiError` with one of these messages unless the member has acquired the records of all runs."""
    for run in runs:
        if run.state is not RecordState.ACQUIRED:
            raise _invalid_state(not_acquired)
        if run.member != context.member:
            raise _invalid_state(not_owned)


def _invalid_state(message: str) -> ApiError:
    return ApiError(Error.INVALID_RECORD_STATE, message)
