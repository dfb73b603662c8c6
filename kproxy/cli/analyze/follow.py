"""`kproxy analyze --follow`: queries traces while they are written."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from kproxy.cli.analyze.lines import LineSelection, condition, parse_duration_us
from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kproxy.spark.streaming.events import MicroBatch, QueryRows
    from kproxy.spark.streaming.execution import RunningQueries
    from kproxy.spark.streaming.queries import Span

#: The number of partitions of the state, and of files per table and batch: few, because there is little data.
SETTINGS = {"spark.sql.shuffle.partitions": "2"}
_WINDOW, _LATE = "1m", "30s"
_MIN_WINDOW_US = 1_000_000
#: Seconds between batches: on a terminal, and in files, where each batch writes a new file.
_SCREEN_S, _FILES_S = 2, 10
_POLL_S = 0.5
#: Number of updates per window on a terminal.
_UPDATES_PER_WINDOW = 5


class _EventHandler(Protocol):
    def handle(self, event: QueryRows | MicroBatch) -> None: ...

    def refresh(self) -> None: ...


def check_follow(args: argparse.Namespace) -> None:
    """Check the options before Spark starts.

    Raises:
        UserError: The options are invalid or cannot be combined.
    """
    from kproxy.spark.streaming.queries import names

    if unknown := sorted(set(args.job) - set(names())):
        raise UserError(f"--follow does not support --job {unknown[0]}; use {', '.join(names())}")
    if args.html or args.port or args.keylog:
        raise UserError("--follow reads traces only: it cannot be combined with --html, --port or --keylog")
    if not args.out and args.format == "csv":
        raise UserError("--follow prints tables or JSON lines: CSV needs --out DIR")
    if not args.out and args.format == "table" and not sys.stdout.isatty():
        raise UserError("--follow prints tables only on a terminal: use --format json elsewhere")
    _span(args, on_terminal=False)


def _span(args: argparse.Namespace, *, on_terminal: bool) -> Span:
    """Return the windows of the queries. They overlap only `on_terminal`."""
    from kproxy.spark.streaming.queries import Span

    window, max_delay = (
        parse_duration_us("--window", args.window or _WINDOW),
        parse_duration_us("--late", args.late or _LATE),
    )
    if window < _MIN_WINDOW_US:
        raise UserError(f"invalid --window {args.window}: use 1s or more, e.g. 1m")
    step = window // _UPDATES_PER_WINDOW
    return Span(step * _UPDATES_PER_WINDOW, step, max_delay) if on_terminal else Span(window, window, max_delay)


def follow_traces(spark: SparkSession, args: argparse.Namespace, selection: LineSelection) -> None:
    """Follow traces until Ctrl-C or SIGTERM."""
    from kproxy.outputs.stderr import print_message
    from kproxy.spark.streaming.execution import RunningQueries
    from kproxy.spark.streaming.queries import ROLLING, names
    from kproxy.spark.streaming.warnings import StreamWarnings

    on_terminal = not args.out and args.format in (None, "table") and sys.stdout.isatty()
    span = _span(args, on_terminal=on_terminal)
    query_names = args.job or names()
    output, stream_warnings = (
        _output(args, query_names, span, on_terminal=on_terminal),
        StreamWarnings(query_names[0], args.late or _LATE),
    )
    with (
        _until_signal() as stop_requested,
        RunningQueries(spark, every=_FILES_S if args.out else _SCREEN_S) as running_queries,
    ):
        _start(spark, running_queries, args, selection, query_names, span, on_terminal=on_terminal)
        with output as screen:
            while (
                event := running_queries.next_event(0 if stop_requested.is_set() else _POLL_S)
            ) is not None or not stop_requested.is_set():
                if event is None:
                    screen.refresh()
                    continue
                screen.handle(event)
                stream_warnings.handle(event)
            screen.refresh()
            stream_warnings.close()
    if args.out and set(query_names) & set(ROLLING):
        print_message(f"incomplete windows are written to {args.out} when you run --follow on it again")


def _start(
    spark: SparkSession, running_queries: RunningQueries, args: argparse.Namespace, selection: LineSelection,
    query_names: list[str], span: Span, *, on_terminal: bool,
) -> None:  # fmt: skip
    from pyspark.sql.utils import is_remote

    from kproxy.spark.ingest.lines import Period
    from kproxy.spark.streaming.execution import TableFiles, claim
    from kproxy.spark.streaming.lines import follow_lines
    from kproxy.spark.streaming.queries import ROLLING, find

    if not args.out and (is_remote() or not str(spark.conf.get("spark.master", "")).startswith("local")):
        raise UserError("on a cluster, --follow needs --out DIR, a directory that all machines can reach")
    row_condition, filter_condition = Period(selection.since, selection.until).column(), condition(selection)
    row_condition = row_condition if filter_condition is None else row_condition & filter_condition
    files = TableFiles(args.out, args.format or "parquet") if args.out else None
    if files is not None:
        claim(spark, files.directory, query_names, _description(args, span))
    for name in query_names:
        lines = follow_lines(spark, args.traces, late=span.watermark(name), since=selection.since)
        table = find(name).run(lines.where(row_condition), span)
        if files is not None:
            running_queries.to_files(table, name, files)
        else:
            running_queries.to_rows(table, name, mode="update" if on_terminal and name in ROLLING else "append")


def _output(
    args: argparse.Namespace, names: list[str], span: Span, *, on_terminal: bool
) -> AbstractContextManager[_EventHandler]:
    if args.out:
        return nullcontext(_FileOutput())
    if not on_terminal:
        return nullcontext(_LineOutput())
    from kproxy.spark.streaming.screen import Screen

    return Screen(sys.stdout, " ".join(args.traces), names, span, args.rows)


class _FileOutput:
    """Shows nothing, because the queries write to files."""

    def handle(self, event: QueryRows | MicroBatch) -> None:
        pass

    def refresh(self) -> None:
        pass


class _LineOutput(_FileOutput):
    """Writes JSON lines to standard output."""

    def handle(self, event: QueryRows | MicroBatch) -> None:
        from kproxy.spark.streaming.events import QueryRows
        from kproxy.spark.tables import write_rows

        if isinstance(event, QueryRows):
            write_rows(event.rows, event.query, sys.stdout)


def _description(args: argparse.Namespace, span: Span) -> str:
    """Describe the query. A later run on the same directory must match the description stored with the tables."""
    from kproxy.trace.formatting import duration

    are_local = (urlsplit(path).scheme == "" for path in args.traces)
    paths = (
        str(Path(path).absolute()) if is_local else path for path, is_local in zip(args.traces, are_local, strict=True)
    )
    filter_options = f" --where '{args.where}'" if args.where else ""
    filter_options += f" --sample {args.sample}" if args.sample is not None else ""
    time_options = f" --window {duration(span.window)} --late {duration(span.late)}"
    return f"{' '.join(paths)}{filter_options}{time_options} --format {args.format or 'parquet'}"


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set instead of ending the process."""
    stop_requested = threading.Event()
    old_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in old_handlers:
        signal.signal(number, lambda *_: stop_requested.set())
    try:
        yield stop_requested
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
