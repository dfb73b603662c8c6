"""`kproxy analyze`: aggregates the traces and captures of a whole fleet, on one machine or with Spark."""

from __future__ import annotations

import argparse
import contextlib
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kproxy.cli import options
from kproxy.cli.analyze.convert import compact_table, convert_files, repair_table
from kproxy.cli.analyze.engines import AUTO, ENGINES, choose_engine
from kproxy.cli.analyze.follow import SETTINGS, check_follow, follow_traces
from kproxy.cli.analyze.lines import line_selection
from kproxy.cli.analyze.session import session_for
from kproxy.cli.analyze.sizes import is_short, is_tiny
from kproxy.cli.analyze.tables import analyze
from kproxy.cli.combinations import refuse
from kproxy.cli.damage import InputDamage
from kproxy.errors import CLEAN, UserError

HELP = "aggregate traces into tables and reports"

_EXAMPLES = """
examples:
  kproxy analyze kproxy-trace                          # all tables
  kproxy analyze --job latency --where 'api=Fetch' kproxy-trace captures/*.pcap
  kproxy analyze --since 2026-11-21T05:00 --format json kproxy-trace > tables.jsonl
  kproxy analyze --html report.html kproxy-trace       # a self-contained HTML report
  kproxy analyze --follow kproxy-trace                 # live, until Ctrl-C
  kproxy analyze convert kproxy-trace --out lines      # incremental conversion to Parquet
  kproxy analyze --master spark://host:7077 s3a://bucket/lines --out s3a://bucket/tables

With Spark, any path that it reads works. Traces are converted to Parquet before each run. For large traces, or on a
cluster, convert them once with "kproxy analyze convert".
"""
_CONVERT = "convert"
_MAX_COUNT = 999_999_999
_MAX_DAYS = 9_999
_STORED = ("parquet", "delta", "iceberg")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from kproxy.spark.jobs import names

    options.set_completion(parser.add_argument(
        "traces", nargs="+", metavar="TRACES",
        help="traces, captures, directories of these, or the output of convert; after 'convert', what to convert",
    ), options.FILE)  # fmt: skip
    parser.add_argument(
        "--job", action="append", default=[], choices=names(), metavar="NAME",
        help=f"compute only this table, repeatable: {', '.join(names())}",
    )  # fmt: skip
    parser.add_argument("--where", metavar="FILTER", help="use only matching lines, e.g. 'api=Fetch and error!=0'")
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="use only lines from this time on (UTC), e.g. 2026-11-21T05:00, or 15m for the last 15 minutes",
    )
    parser.add_argument("--until", metavar="TIME", help="use only lines before this time")
    parser.add_argument(
        "--history", type=_days, metavar="DAYS",
        help="with --since, also read so many days before it, which anomalies compares with, e.g. 28",
    )  # fmt: skip
    parser.add_argument(
        "--time-zone", type=_time_zone, metavar="ZONE", default="UTC",
        help="the time zone whose hours and days anomalies compares, e.g. Europe/Berlin (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--sample", type=_parse_share, metavar="SHARE",
        help="use only this share (0 to 1) of the connections, the same ones each time",
    )  # fmt: skip
    options.set_completion(
        parser.add_argument(
            "--out", metavar="DIR", help="write each table to DIR/NAME; with convert, write the lines to DIR"
        ),
        options.DIRECTORY,
    )
    parser.add_argument(
        "--format", choices=("table", "json", "csv", *_STORED),
        help="output format (default: table; parquet with --out); convert takes parquet, or delta "
        "and iceberg if Spark has their packages",
    )  # fmt: skip
    parser.add_argument(
        "--follow", action="store_true",
        help="follow traces while they are written: rolling latency and errors, new findings and clients, until Ctrl-C",
    )  # fmt: skip
    parser.add_argument("--window", metavar="TIME", help="with --follow, length of the rolling window (default: 1m)")
    parser.add_argument("--late", metavar="TIME", help="with --follow, how late a line may arrive (default: 30s)")
    options.set_completion(
        parser.add_argument(
            "--html", metavar="FILE", help="write a self-contained HTML report; tables are written only with --out"
        ),
        options.FILE,
    )
    parser.add_argument("--repair", action="store_true", help="with convert, remove duplicate lines from DIR")
    parser.add_argument("--compact", action="store_true", help="with convert, merge the small batches in DIR")
    parser.add_argument(
        "--rows", type=_count, default=20, metavar="N", help="rows to show per table (default: %(default)s)"
    )
    parser.add_argument(
        "--engine", choices=ENGINES, default=AUTO,
        help="embedded: Sail, for what fits this machine; spark: Spark, also for the rest; auto: by what is installed "
        "and the size of the input (default)",
    )  # fmt: skip
    parser.add_argument("--master", metavar="URL", help="Spark master: local[N], spark://..., yarn (default: local)")
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://HOST:PORT")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting, repeatable")
    options.add_capture_options(parser)
    parser.epilog = _EXAMPLES


def _count(text: str, maximum: int = _MAX_COUNT) -> int:
    if not text.isascii() or not text.isdecimal() or not text.strip("0"):
        raise argparse.ArgumentTypeError(f"invalid number {text!r}: use 1 or more")
    if len(text) > len(str(maximum)):
        raise argparse.ArgumentTypeError(f"use at most {maximum}")
    return int(text)


def _days(text: str) -> timedelta:
    return timedelta(days=_count(text.removesuffix("d"), _MAX_DAYS))


def _time_zone(text: str) -> str:
    try:
        return ZoneInfo(text).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise argparse.ArgumentTypeError(f"unknown time zone {text}: use a name such as Europe/Berlin") from None


def _parse_share(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (share := float(text)) <= 1:
            return share
    raise argparse.ArgumentTypeError("use a share of the connections, e.g. 0.1")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    converts = args.traces[0] == _CONVERT
    if converts:
        args.traces = args.traces[1:]
    _check(args, converts)
    damage = InputDamage()
    settings = dict(_parse_setting(setting) for setting in args.conf)
    selection = line_selection(args)
    if args.follow:
        settings = SETTINGS | settings
    choice = choose_engine(args, converts=converts)
    if args.compact:
        compact_table(args)
        return CLEAN
    if choice.engine is None:
        convert_files(None, args, damage)
        return damage.status(CLEAN)
    short, tiny = (not args.follow and is_small(args.traces) for is_small in (is_short, is_tiny))
    with session_for(choice, settings, short=short, tiny=tiny) as spark:
        if args.repair:
            repair_table(spark, args)
        elif converts:
            convert_files(spark, args, damage)
        elif args.follow:
            follow_traces(spark, args, selection)
        else:
            analyze(spark, args, selection, damage)
    return damage.status(CLEAN)


def _check(args: argparse.Namespace, converts: bool) -> None:
    if converts or args.out or args.format in ("json", "csv") or args.html:
        refuse(args, ("rows",), "is for tables as text: leave it out")
    for option in ("repair", "compact"):
        if getattr(args, option):
            refuse(args, ("port", "keylog"), f"is for captures: --{option} reads none")
            if not converts:
                raise UserError(f"--{option} works only with convert: kproxy analyze convert --{option} --out DIR")
            if args.traces or not args.out:
                raise UserError(f"usage: kproxy analyze convert --{option} --out DIR")
    if args.repair and args.compact:
        raise UserError("--repair and --compact are two steps: run one after the other")
    if converts:
        unused = [
            name for name in ("job", "where", "since", "until", "sample", "html", "follow") if getattr(args, name)
        ]
        if not (args.repair or args.compact or (args.traces and args.out)):
            raise UserError("usage: kproxy analyze convert TRACES --out DIR")
        if unused:
            raise UserError(f"convert always takes whole files: remove --{unused[0]}")
        if args.format not in (None, *_STORED):
            raise UserError(f"convert supports --format {', '.join(_STORED)}")
    elif args.follow:
        check_follow(args)
    elif args.window or args.late:
        raise UserError("--window and --late need --follow")
    elif args.format in ("delta", "iceberg"):
        raise UserError(f"--format {args.format} works only with convert")
    elif (args.out and args.format == "table") or (args.format == "parquet" and not args.out):
        raise UserError("Parquet needs --out DIR")
    elif args.format == "csv" and not args.out and len(args.job) != 1:
        raise UserError("CSV holds one table: pass one --job, or --out DIR")
    if args.history and (args.since is None or args.follow or converts):
        raise UserError("--history needs --since: it adds days before it")
    if args.html and (args.job or args.format) and not args.out:
        raise UserError("--html always covers all tables: use --job and --format only with --out DIR")
    if args.html and not Path(args.html).parent.is_dir():
        raise UserError(f"--html {args.html}: no such directory")
    if args.keylog and not Path(args.keylog).is_file():
        raise UserError(f"--keylog {args.keylog}: no such file")


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"invalid --conf {text}: use KEY=VALUE")
    return name, value
