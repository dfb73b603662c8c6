"""`kproxy analyze`: what traces and captures say about a whole fleet, with Spark."""

from __future__ import annotations

import argparse
from pathlib import Path

from kproxy.cli import options
from kproxy.cli.analyze.convert import convert_files, repair_table
from kproxy.cli.analyze.follow import SETTINGS, check_follow, follow_traces
from kproxy.cli.analyze.lines import wanted
from kproxy.cli.analyze.session import is_short, spark_for
from kproxy.cli.analyze.tables import analyze
from kproxy.errors import CLEAN, UserError

HELP = "tables about a whole fleet, from traces and captures (Spark)"

_EXAMPLES = """
examples:
  kproxy analyze kproxy-trace                          # every table there is
  kproxy analyze --job latency --where 'api=Fetch' kproxy-trace captures/*.pcap
  kproxy analyze --since 2026-11-21T05:00 --format json kproxy-trace > tables.jsonl
  kproxy analyze --html report.html kproxy-trace       # one page for people, which opens anywhere
  kproxy analyze --follow kproxy-trace                 # as it happens, until Ctrl-C
  kproxy analyze convert kproxy-trace --out lines      # to Parquet, what is new only; again and again
  kproxy analyze --master spark://host:7077 s3a://bucket/lines --out s3a://bucket/tables

Paths are any that Spark reads. Traces are converted to Parquet first: of large ones, and on a cluster, with convert.

exit status: 0 done, 2 wrong usage or unreadable input
"""
_CONVERT = "convert"
_STORED = ("parquet", "delta", "iceberg")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from kproxy.spark.jobs import names

    options.completes(parser.add_argument(
        "traces", nargs="+", metavar="TRACES",
        help="traces, captures, directories of them, or tables that convert made; after 'convert', what to convert",
    ), options.FILE)  # fmt: skip
    parser.add_argument(
        "--job", action="append", default=[], choices=names(), metavar="NAME",
        help=f"only this table, repeatable: {', '.join(names())}",
    )  # fmt: skip
    parser.add_argument("--where", metavar="FILTER", help="only of lines that match, e.g. 'api=Fetch and error!=0'")
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only of lines from then on (UTC), e.g. 2026-11-21T05:00; 15m: since so long ago",
    )
    parser.add_argument("--until", metavar="TIME", help="only of lines before then")
    options.completes(
        parser.add_argument(
            "--out", metavar="DIR", help="write to DIR: each table below its name; with convert, the lines"
        ),
        options.DIRECTORY,
    )
    parser.add_argument(
        "--format", choices=("table", "json", "csv", *_STORED),
        help="form of the tables (default: table, with --out parquet); with convert, of the lines: parquet, or delta "
        "and iceberg if their packages are on the session",
    )  # fmt: skip
    parser.add_argument(
        "--follow", action="store_true",
        help="traces while they are written: rolling latency and errors, new findings and clients, until Ctrl-C",
    )  # fmt: skip
    parser.add_argument("--window", metavar="TIME", help="with --follow, how long a rolling figure is over (1m)")
    parser.add_argument(
        "--late", metavar="TIME", help="with --follow, how much later than others a line may come (30s)"
    )
    options.completes(
        parser.add_argument(
            "--html", metavar="FILE", help="write a report, one page for a browser; tables with --out only"
        ),
        options.FILE,
    )
    parser.add_argument("--repair", action="store_true", help="with convert, leave each line of DIR in it once")
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
    asked = wanted(args)
    if args.follow:
        settings = SETTINGS | settings
    with spark_for(args.master, settings, short=not args.follow and is_short(args.traces)) as spark:
        if args.repair:
            repair_table(spark, args)
        elif converts:
            convert_files(spark, args)
        elif args.follow:
            follow_traces(spark, args, asked)
        else:
            analyze(spark, args, asked)
    return CLEAN


def _check(args: argparse.Namespace, converts: bool) -> None:
    if converts:
        unused = [name for name in ("job", "where", "since", "until", "html", "follow") if getattr(args, name)]
        if args.repair:
            if args.traces or not args.out:
                raise UserError("write kproxy analyze convert --repair --out DIR")
        elif not args.traces or not args.out:
            raise UserError("write kproxy analyze convert TRACES --out DIR")
        if unused:
            raise UserError(f"convert takes whole files, it has no --{unused[0]}")
        if args.format not in (None, *_STORED):
            raise UserError(f"convert has --format {', '.join(_STORED)}")
    elif args.repair:
        raise UserError("--repair is for convert: kproxy analyze convert --repair --out DIR")
    elif args.follow:
        check_follow(args)
    elif args.window or args.late:
        raise UserError("--window and --late are for --follow")
    elif args.format in ("delta", "iceberg"):
        raise UserError(f"--format {args.format} is for convert")
    elif (args.out and args.format == "table") or (args.format == "parquet" and not args.out):
        raise UserError("tables are shown, Parquet is written to --out DIR")
    elif args.format == "csv" and not args.out and len(args.job) != 1:
        raise UserError("CSV has one table: give one --job, or --out DIR")
    if args.html and (args.job or args.format) and not args.out:
        raise UserError("the report is of all tables; --job and --format choose those that go to --out DIR")
    if args.html and not Path(args.html).parent.is_dir():
        raise UserError(f"--html {args.html}: no such directory")
    if args.keylog and not Path(args.keylog).is_file():
        raise UserError(f"--keylog {args.keylog}: no such file")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--conf {text}: write KEY=VALUE")
    return name, value
