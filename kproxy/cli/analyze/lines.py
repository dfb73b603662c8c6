"""Which lines a command is about, and what it says of those that it cannot read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.filters import Filter
    from kproxy.spark.ingest.convert import TableBatch
    from kproxy.spark.ingest.decode import CaptureOptions


#: Bad files that a message names.
_MOST_NAMED = 10


class LineSelection(NamedTuple):
    """Which lines an analysis is about."""

    filter: Filter | None
    since: datetime | None
    until: datetime | None


def wanted(args: argparse.Namespace) -> LineSelection:
    """What the options ask for; their mistakes are found before Spark starts."""
    from kproxy.outputs.line_outputs import filter_for

    return LineSelection(filter_for(args.where), _moment("--since", args.since), _moment("--until", args.until))


def _moment(option: str, text: str | None) -> datetime | None:
    from kproxy.filters import FilterError
    from kproxy.filters.fields import BY_NAME
    from kproxy.filters.nodes import Value
    from kproxy.filters.values import instant

    if text is None:
        return None
    if text.endswith(("s", "m")):
        return datetime.now(UTC) - timedelta(microseconds=duration_us(option, text))
    try:
        return datetime.fromisoformat(instant(BY_NAME["ts"], Value(text, quoted=True)))
    except ValueError as error:
        why = error.args[1] if isinstance(error, FilterError) else error
        raise UserError(f"{option} {text}: {why}") from None


def duration_us(option: str, text: str) -> int:
    """A duration as filters have it, in microseconds."""
    from kproxy.filters import FilterError
    from kproxy.filters.fields import BY_NAME
    from kproxy.filters.nodes import Value
    from kproxy.filters.values import number

    try:
        return round(number(BY_NAME["latency"], Value(text, quoted=False)))
    except FilterError as error:
        raise UserError(f"{option} {text}: {error.args[1]}") from None


def decoding(args: argparse.Namespace) -> CaptureOptions:
    """How captures are read."""
    from kproxy.spark.ingest.decode import CaptureOptions

    return CaptureOptions(frozenset(args.port), args.keylog)


def warn_unread(batch: TableBatch) -> None:
    """Say which lines and which files of a batch could not be read."""
    from kproxy.outputs.stderr import warn
    from kproxy.trace.formatting import safe

    if batch.corrupt:
        some = f", as in {safe(batch.example)}" if batch.example else ""
        files = f"; {_listed(batch.corrupt_files, ', ')} have such lines" if len(batch.corrupt_files) > 1 else ""
        warn(f"{batch.corrupt} of {batch.corrupt + batch.lines} lines could not be read and were skipped{some}{files}")
    if batch.damaged:
        count = f"{batch.damaged_files} of {len(batch.files)} files could not be read completely"
        warn(f"{count}: {_listed(batch.damaged, '; ')}")


def warn_empty(path: str) -> None:
    """Say that a file is left out because it has no bytes."""
    from kproxy.outputs.stderr import warn
    from kproxy.trace.formatting import safe

    warn(f"{safe(path)} is empty (0 bytes) and was skipped")


def _listed(texts: Sequence[str], separator: str) -> str:
    from kproxy.trace.formatting import safe

    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return separator.join(map(safe, texts[:_MOST_NAMED])) + more
