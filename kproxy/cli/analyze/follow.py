"""`kproxy analyze --follow`: what traces say while they are written."""

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

from kproxy.cli.analyze.lines import LineSelection, duration_us
from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kproxy.spark.streaming.events import MicroBatch, QueryRows
    from kproxy.spark.streaming.execution import RunningQueries
    from kproxy.spark.streaming.queries import Span

#: State is in so many parts, and there are so many files of a table each time; it is little.
SETTINGS = {"spark.sql.shuffle.partitions": "2"}
_WINDOW, _LATE = "1m", "30s"
_LEAST_US = 1_000_000
#: How often there are new figures, in seconds; on a terminal, and in files, of which there is one for each time.
_SHOWN_S, _FILES_S = 2, 10
_LOOK_S = 0.5
#: The figures of a terminal roll on so many times in a window.
_STEPS = 5


class _Output(Protocol):
    def handle(self, event: QueryRows | MicroBatch) -> None: ...

    def refresh(self) -> None: ...


def check_follow(args: argparse.Namespace) -> None:
    """Say what is wrong with the options, before anything starts."""
    from kproxy.spark.streaming.queries import names

    if unknown := sorted(set(args.job) - set(names())):
        raise UserError(f"--follow does not support --job {unknown[0]}; use {', '.join(names())}")
    if args.html or args.port or args.keylog:
        raise UserError("--follow reads traces only: it cannot be combined with --html, --port or --keylog")
    if not args.out and args.format == "csv":
        raise UserError("--follow prints tables or JSON lines: CSV needs --out DIR")
    if not args.out and args.format == "table" and not sys.stdout.isatty():
        raise UserError("--follow prints tables only on a terminal: use --format json elsewhere")
    _span(args, shown=False)


def _span(args: argparse.Namespace, *, shown: bool) -> Span:
    """The time that queries look at; `shown`: on a terminal, where windows overlap."""
    from kproxy.spark.streaming.queries import Span

    window, late = duration_us("--window", args.window or _WINDOW), duration_us("--late", args.late or _LATE)
    if window < _LEAST_US:
        raise UserError(f"invalid --window {args.window}: use 1s or more, e.g. 1m")
    step = window // _STEPS
    return Span(step * _STEPS, step, late) if shown else Span(window, window, late)


def follow_traces(spark: SparkSession, args: argparse.Namespace, asked: LineSelection) -> None:
    """Follow traces until Ctrl-C or SIGTERM."""
    from kproxy.outputs.stderr import say
    from kproxy.spark.streaming.execution import RunningQueries
    from kproxy.spark.streaming.queries import ROLLING, names
    from kproxy.spark.streaming.warnings import StreamWarnings

    shown = not args.out and args.format in (None, "table") and sys.stdout.isatty()
    span = _span(args, shown=shown)
    chosen = args.job or names()
    output, notes = _output(args, chosen, span, shown=shown), StreamWarnings(chosen[0], args.late or _LATE)
    with _until_signal() as over, RunningQueries(spark, every=_FILES_S if args.out else _SHOWN_S) as running:
        _start(spark, running, args, asked, chosen, span, shown=shown)
        with output as told:
            while (event := running.next_event(0 if over.is_set() else _LOOK_S)) is not None or not over.is_set():
                if event is None:
                    told.refresh()
                    continue
                told.handle(event)
                notes.handle(event)
            told.refresh()
            notes.close()
    if args.out and set(chosen) & set(ROLLING):
        say(f"incomplete windows are written to {args.out} when you run --follow on it again")


def _start(
    spark: SparkSession, running: RunningQueries, args: argparse.Namespace, asked: LineSelection, chosen: list[str],
    span: Span, *, shown: bool,
) -> None:  # fmt: skip
    from pyspark.sql.utils import is_remote

    from kproxy.spark.filter_columns import where
    from kproxy.spark.ingest.lines import Period
    from kproxy.spark.streaming.execution import Files, claim
    from kproxy.spark.streaming.lines import follow_lines
    from kproxy.spark.streaming.queries import ROLLING, find

    if not args.out and (is_remote() or not str(spark.conf.get("spark.master", "")).startswith("local")):
        raise UserError("on a cluster, --follow needs --out DIR, a directory that all machines can reach")
    wanted = Period(asked.since, asked.until).column()
    if asked.filter is not None:
        wanted &= where(asked.filter)
    files = Files(args.out, args.format or "parquet") if args.out else None
    if files is not None:
        claim(spark, files.directory, chosen, _question(args, span))
    for name in chosen:
        lines = follow_lines(spark, args.traces, late=span.watermark(name), since=asked.since)
        table = find(name).run(lines.where(wanted), span)
        if files is not None:
            running.to_files(table, name, files)
        else:
            running.to_rows(table, name, mode="update" if shown and name in ROLLING else "append")


def _output(args: argparse.Namespace, names: list[str], span: Span, *, shown: bool) -> AbstractContextManager[_Output]:
    if args.out:
        return nullcontext(_Files())
    if not shown:
        return nullcontext(_Lines())
    from kproxy.spark.streaming.screen import Screen

    return Screen(sys.stdout, " ".join(args.traces), names, span, args.rows)


class _Files:
    """Who writes to files shows nothing."""

    def handle(self, event: QueryRows | MicroBatch) -> None:
        pass

    def refresh(self) -> None:
        pass


class _Lines(_Files):
    """JSON lines on standard output."""

    def handle(self, event: QueryRows | MicroBatch) -> None:
        from kproxy.spark.streaming.events import QueryRows
        from kproxy.spark.tables import write_rows

        if isinstance(event, QueryRows):
            write_rows(event.rows, event.query, sys.stdout)


def _question(args: argparse.Namespace, span: Span) -> str:
    """What tables in a directory are of: who goes on with them has to ask the same."""
    from kproxy.trace.formatting import duration

    local = (urlsplit(path).scheme == "" for path in args.traces)
    paths = (str(Path(path).absolute()) if here else path for path, here in zip(args.traces, local, strict=True))
    where = f" --where '{args.where}'" if args.where else ""
    times = f" --window {duration(span.window)} --late {duration(span.late)}"
    return f"{' '.join(paths)}{where}{times} --format {args.format or 'parquet'}"


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM, which end nothing else."""
    over = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: over.set())
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
