"""The selection of lines, and warnings about lines that cannot be read."""

from __future__ import annotations

import argparse
import operator
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from kproxy.cli.damage import InputDamage
from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kproxy.filters import Filter
    from kproxy.spark.ingest.convert import TableBatch
    from kproxy.spark.ingest.decode import CaptureOptions


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The largest number of files that a message names.
_MAX_NAMED = 10


class LineSelection(NamedTuple):
    """The lines to analyze."""

    filter: Filter | None
    since: datetime | None
    until: datetime | None
    sample: float | None


def line_selection(args: argparse.Namespace) -> LineSelection:
    """Return the selection made by the options. Call this before Spark starts, to report invalid options early.

    Raises:
        UserError: An option is invalid.
    """
    from kproxy.outputs.line_outputs import filter_for

    times = _parse_time("--since", args.since), _parse_time("--until", args.until)
    return LineSelection(filter_for(args.where), *times, args.sample)


def condition(selection: LineSelection) -> Column | None:
    """Return the condition of the filter and the sample, without the period; None if they select all lines."""
    from kproxy.spark.filter_columns import filter_condition
    from kproxy.spark.ingest.lines import sampled

    conditions = [] if selection.filter is None else [filter_condition(selection.filter)]
    conditions += [] if selection.sample is None else [sampled(selection.sample)]
    return reduce(operator.and_, conditions) if conditions else None


def _parse_time(option: str, text: str | None) -> datetime | None:
    """Return the time of an option, at least 1970, since no trace is older; None if it is not given."""
    from kproxy.filters import FilterError
    from kproxy.filters.fields import BY_NAME
    from kproxy.filters.nodes import Value
    from kproxy.filters.values import instant

    if text is None:
        return None
    if text.endswith(("s", "m")):
        elapsed_us = min(parse_duration_us(option, text), _now_us())
        return datetime.now(UTC) - timedelta(microseconds=elapsed_us)
    try:
        return max(datetime.fromisoformat(instant(BY_NAME["ts"], Value(text, quoted=True))), EPOCH)
    except ValueError as error:
        reason = error.args[1] if isinstance(error, FilterError) else error
        raise UserError(f"{option} {text}: {reason}") from None


def _now_us() -> int:
    return (datetime.now(UTC) - EPOCH) // timedelta(microseconds=1)


def parse_duration_us(option: str, text: str) -> int:
    """Parse a duration as in filters; return microseconds."""
    from kproxy.filters import FilterError
    from kproxy.filters.fields import BY_NAME
    from kproxy.filters.nodes import Value
    from kproxy.filters.values import number

    try:
        return round(number(BY_NAME["latency"], Value(text, quoted=False)))
    except FilterError as error:
        raise UserError(f"{option} {text}: {error.args[1]}") from None


def capture_options(args: argparse.Namespace) -> CaptureOptions:
    """Return the options for reading captures."""
    from kproxy.spark.ingest.decode import CaptureOptions

    return CaptureOptions(frozenset(args.port), args.keylog)


def warn_unread(damage: InputDamage, batch: TableBatch) -> None:
    """Warn about lines and files of a batch that could not be read.

    They count as damage, except the last lines of runs that were killed.
    """
    from kproxy.outputs.stderr import warn
    from kproxy.trace.formatting import safe

    if batch.corrupt:
        report = damage if batch.corrupt > sum(map(_has_incomplete_end, batch.corrupt_files)) else warn
        example = f", as in {safe(batch.example)}" if batch.example else ""
        files = f"; {_join_limited(batch.corrupt_files, ', ')} have such lines" if len(batch.corrupt_files) > 1 else ""
        report(
            f"{batch.corrupt} of {batch.corrupt + batch.lines} lines could not be read and were skipped{example}{files}"
        )
    if batch.damaged:
        damage_text = f"{batch.damaged_files} of {len(batch.files)} files could not be read completely"
        warn(f"{damage_text}: {_join_limited(batch.damaged, '; ')}")


def _has_incomplete_end(uri: str) -> bool:
    """Return whether a local file ends in the middle of a line."""
    from kproxy.spark.ingest.decode import local_path

    try:
        with local_path(uri).open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False


def warn_empty(path: str) -> None:
    """Warn that an empty file was skipped."""
    from kproxy.outputs.stderr import warn
    from kproxy.trace.formatting import safe

    warn(f"{safe(path)} is empty (0 bytes) and was skipped")


def _join_limited(texts: Sequence[str], separator: str) -> str:
    from kproxy.trace.formatting import safe

    more_text = f" and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    return separator.join(map(safe, texts[:_MAX_NAMED])) + more_text
