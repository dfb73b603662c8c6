"""`kproxy analyze convert`: converts traces and captures to a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kproxy.cli.analyze.lines import decoding, warn_empty, warn_unread
from kproxy.cli.damage import InputDamage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def convert_files(spark: SparkSession, args: argparse.Namespace, damage: InputDamage) -> None:
    """Convert new files, and report their number."""
    from kproxy.outputs.stderr import say, warn
    from kproxy.spark.ingest.convert import batches, convert, grown
    from kproxy.spark.ingest.inputs import find_files
    from kproxy.spark.session.progress import progress

    files = find_files(spark, args.traces, empty=warn_empty)
    for file in grown(files, batches(spark, args.out) or []):
        warn(f"{file.path} has grown since it was converted; the new lines were skipped: convert only complete files")
    with progress(spark, "convert"):
        added = convert(
            spark, files, args.out, decoding(args), form=args.format, made=partial(warn_unread, damage),
            waiting=_waiting(args),
        )  # fmt: skip
    count = sum(len(batch.files) for batch in added)
    say(f"{count} of {len(files)} files were new: {sum(batch.lines for batch in added)} lines added to {args.out}")


def repair_table(spark: SparkSession, args: argparse.Namespace) -> None:
    """Remove duplicate lines from a table, and report what was wrong."""
    from kproxy.outputs.stderr import say, warn
    from kproxy.spark.ingest.repair import repair
    from kproxy.spark.session.progress import progress

    with progress(spark, "repair"):
        done = repair(spark, args.out, waiting=_waiting(args))
    for each in done:
        if each.again:
            warn(f"batch {each.number} had lost lines and was removed: convert its {len(each.again)} files again")
        elif each.lost:
            warn(f"batch {each.number} had lost lines, and its source files are gone: its remaining lines are kept")
    if not done:
        say(f"{args.out} has no duplicate lines")
    else:
        say(f"{sum(each.removed for each in done)} lines were removed from {len(done)} batches of {args.out}")


def _waiting(args: argparse.Namespace) -> Callable[[], None]:
    from kproxy.outputs.stderr import say

    return lambda: say(f"waiting: another run is writing to {args.out}")
