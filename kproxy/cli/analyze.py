"""`kproxy analyze`: what traces and captures say about a whole fleet, with Spark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kproxy.cli import options
from kproxy.cli.errors import CLEAN, CommandError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kproxy.filters import Filter
    from kproxy.spark.reading.convert import Batch
    from kproxy.spark.reading.decode import Options

HELP = "tables about a whole fleet, from traces and captures (Spark)"

_EXAMPLES = """
examples:
  kproxy analyze kproxy-trace                          # every table there is
  kproxy analyze --job latency --where 'api=Fetch' kproxy-trace captures/*.pcap
  kproxy analyze --since 2026-11-21T05:00 --format json kproxy-trace > tables.jsonl
  kproxy analyze --html report.html kproxy-trace       # one page for people, which opens anywhere
  kproxy analyze convert kproxy-trace --out lines      # to Parquet, what is new only; again and again
  kproxy analyze --master spark://host:7077 s3a://bucket/lines --out s3a://bucket/tables

Paths are any that Spark reads. Traces are converted to Parquet first: of large ones, and on a cluster, with convert.

exit status: 0 done, 2 wrong usage or unreadable input
"""
_CONVERT = "convert"
#: Up to so many bytes of local input, starting quickly saves more than running fast.
_SHORT = 96 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from kproxy.spark.jobs import names

    parser.add_argument(
        "traces", nargs="+", metavar="TRACES",
        help="traces, captures, directories of them, or tables that convert made; after 'convert', what to convert",
    )  # fmt: skip
    parser.add_argument(
        "--job", action="append", default=[], choices=names(), metavar="NAME",
        help=f"only this table, repeatable: {', '.join(names())}",
    )  # fmt: skip
    parser.add_argument("--where", metavar="FILTER", help="only of lines that match, e.g. 'api=Fetch and error!=0'")
    parser.add_argument("--since", metavar="TIME", help="only of lines from then on (UTC), e.g. 2026-11-21T05:00")
    parser.add_argument("--until", metavar="TIME", help="only of lines before then")
    parser.add_argument("--out", metavar="DIR", help="write to DIR: each table below its name; with convert, the lines")
    parser.add_argument(
        "--format", choices=("table", "json", "csv", "parquet"),
        help="form of the tables (default: table, with --out parquet)",
    )  # fmt: skip
    parser.add_argument("--html", metavar="FILE", help="write a report, one page for a browser; tables with --out only")
    parser.add_argument("--rows", type=_count, default=20, metavar="N", help="show so many rows (default: %(default)s)")
    parser.add_argument(
        "--master", metavar="URL", help="where to run: local[N], spark://..., yarn, sc://... (default: here)"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark, repeatable"
    )
    options.add_capture(parser)
    parser.epilog = _EXAMPLES


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError("one or more")
    return count


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    converts = args.traces[0] == _CONVERT
    if converts:
        args.traces = args.traces[1:]
    _check(args, converts)
    settings = dict(_setting(each) for each in args.conf)
    wanted = _wanted(args)
    with _spark(args.master, args.traces, settings) as spark:
        if converts:
            _convert(spark, args)
        else:
            _analyze(spark, args, wanted)
    return CLEAN


def _check(args: argparse.Namespace, converts: bool) -> None:
    if converts:
        unused = [name for name in ("job", "where", "since", "until", "format", "html") if getattr(args, name)]
        if not args.traces or not args.out:
            raise CommandError("write kproxy analyze convert TRACES --out DIR")
        if unused:
            raise CommandError(f"convert takes whole files, it has no --{unused[0]}")
    elif (args.out and args.format == "table") or (args.format == "parquet" and not args.out):
        raise CommandError("tables are shown, Parquet is written to --out DIR")
    elif args.format == "csv" and not args.out and len(args.job) != 1:
        raise CommandError("CSV has one table: give one --job, or --out DIR")
    if args.html and (args.job or args.format) and not args.out:
        raise CommandError("the report is of all tables; --job and --format choose those that go to --out DIR")
    if args.html and not Path(args.html).parent.is_dir():
        raise CommandError(f"--html {args.html}: no such directory")
    if args.keylog and not Path(args.keylog).is_file():
        raise CommandError(f"--keylog {args.keylog}: no such file")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandError(f"--conf {text}: write KEY=VALUE")
    return name, value


@contextmanager
def _spark(master: str | None, paths: Sequence[str], settings: dict[str, str]) -> Iterator[SparkSession]:
    """A session while it lasts; what goes wrong in it as one sentence."""
    try:
        import pyspark
    except ImportError:
        raise CommandError("analyze needs Spark: pip install 'kproxy[spark]'") from None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from kproxy.filters import FilterError
    from kproxy.spark.reading.inputs import NothingToRead
    from kproxy.spark.reading.lines import NotHere
    from kproxy.spark.session import session
    from kproxy.spark.session.java import JavaMissing

    try:
        spark = session(master, short=_is_short(paths), settings=settings)
        try:
            yield spark
        finally:
            spark.stop()
    except FilterError as error:
        raise CommandError(f"filter: {error}") from None
    except (NothingToRead, NotHere, JavaMissing) as error:
        raise CommandError(str(error)) from None
    except ConnectionError:
        more = "give it more memory: --conf spark.driver.memory=4g"
        raise CommandError(f"Spark's Java process has ended, most likely for want of memory; {more}") from None
    except (PySparkException, Py4JError) as error:
        raise CommandError(f"Spark {pyspark.__version__}: {_cause(error)}") from None


def _is_short(paths: Sequence[str]) -> bool:
    """Whether all of it is here, and little."""
    sizes = 0
    for path in map(Path, paths):
        files = path.rglob("*") if path.is_dir() else (path,)
        sizes += sum(each.stat().st_size if each.exists() else _SHORT for each in files)
    return sizes < _SHORT


def _cause(error: Exception) -> str:
    """Of what Spark says, which may go on with the stacks of two languages, the cause."""
    text = str(error)
    _, raised, trace = text.partition("Traceback (most recent call last):\n")
    if raised:  # by Python: its sentence stands behind the frames, which are indented, and behind its class
        [*_, text] = next((line for line in trace.splitlines() if line[:1].strip()), text).split(": ", 1)
    lines = (line.removeprefix(": ").strip() for line in text.splitlines())
    told = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    return next(told, type(error).__name__)[:400]


def _convert(spark: SparkSession, args: argparse.Namespace) -> None:
    from kproxy.outputs.stderr import say, warn
    from kproxy.spark.reading.convert import batches, convert, grown
    from kproxy.spark.reading.inputs import find_files
    from kproxy.spark.session.progress import progress

    files = find_files(spark, args.traces)
    for file in grown(files, batches(spark, args.out) or []):
        warn(f"{file.path} has grown since it was converted, what came since is left out; convert whole files")
    with progress(spark, "convert"):
        added = convert(spark, files, args.out, _options(args), made=_tell_corrupt)
    count = sum(len(batch.files) for batch in added)
    say(f"{count} of {len(files)} files were new: {sum(batch.lines for batch in added)} lines are in {args.out} now")


class _Wanted(NamedTuple):
    """Which lines an analysis is about."""

    filter: Filter | None
    since: datetime | None
    until: datetime | None


def _wanted(args: argparse.Namespace) -> _Wanted:
    from kproxy.outputs.choice import filter_for

    return _Wanted(filter_for(args.where), _moment("--since", args.since), _moment("--until", args.until))


def _analyze(spark: SparkSession, args: argparse.Namespace, wanted: _Wanted) -> None:
    from kproxy.spark import jobs
    from kproxy.spark.reading.lines import Period, open_lines
    from kproxy.spark.session.progress import progress
    from kproxy.spark.where import where

    period = Period(wanted.since, wanted.until)
    condition = None if wanted.filter is None else where(wanted.filter)
    with ExitStack() as stack:
        with progress(spark, "read"):
            opened = open_lines(spark, args.traces, _options(args), period=period, where=condition, made=_tell_corrupt)
            lines = stack.enter_context(opened)
        if args.html:
            _write_report(spark, lines, args)
            if not args.out:
                return
        for name in args.job or jobs.names():
            _write(spark, jobs.find(name).run(lines), name, args)


def _write_report(spark: SparkSession, lines: DataFrame, args: argparse.Namespace) -> None:
    from kproxy.spark.report.figures import figures
    from kproxy.spark.report.pages import report
    from kproxy.spark.session.progress import progress

    made = report(figures(lines, partial(progress, spark)), [Path(path).name or path for path in args.traces])
    try:
        Path(args.html).write_text(made, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{args.html}: {error.strerror}") from None


def _write(spark: SparkSession, table: DataFrame, name: str, args: argparse.Namespace) -> None:
    from kproxy.spark.session.progress import progress
    from kproxy.spark.tables import first_rows, write_csv, write_files, write_json, write_table

    waiting = progress(spark, name)
    if args.out:
        with waiting:
            write_files(table, f"{args.out}/{name}", args.format or "parquet")
    elif args.format in ("json", "csv"):
        with nullcontext() if sys.stdout.isatty() else waiting:  # a terminal cannot show both at once
            write_json(table, name, sys.stdout) if args.format == "json" else write_csv(table, sys.stdout)
    else:
        with waiting:
            rows = first_rows(table, args.rows)
        write_table(table, name, rows, args.rows, sys.stdout)


def _options(args: argparse.Namespace) -> Options:
    from kproxy.spark.reading.decode import Options

    return Options(frozenset(args.port), args.keylog)


def _moment(option: str, text: str | None) -> datetime | None:
    from kproxy.filters import FilterError
    from kproxy.filters.fields import BY_NAME
    from kproxy.filters.nodes import Value
    from kproxy.filters.values import instant

    if text is None:
        return None
    try:
        return datetime.fromisoformat(instant(BY_NAME["ts"], Value(text, quoted=True)))
    except ValueError as error:
        why = error.args[1] if isinstance(error, FilterError) else error
        raise CommandError(f"{option} {text}: {why}") from None


def _tell_corrupt(batch: Batch) -> None:
    from kproxy.outputs.stderr import warn
    from kproxy.outputs.text import safe

    if batch.corrupt:
        some = f", as in {safe(batch.example)}" if batch.example else ""
        warn(f"{batch.corrupt} of {batch.corrupt + batch.lines} lines could not be read and are left out{some}")
