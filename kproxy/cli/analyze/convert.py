"""`kproxy analyze convert`: converts traces and captures to a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kproxy.cli.analyze.lines import capture_options, warn_empty, warn_unread
from kproxy.cli.damage import InputDamage
from kproxy.errors import UserError
from kproxy.io.extras import install_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def convert_files(spark: SparkSession | None, args: argparse.Namespace, damage: InputDamage) -> None:
    """Convert new files, and report their number. Without `spark`, the files and the table are local.

    Raises:
        UserError: Packages for reading and writing tables are missing.
    """
    check_packages()
    from kproxy.outputs.stderr import print_message, warn
    from kproxy.spark.ingest.convert import batches, convert, grown_files
    from kproxy.spark.ingest.inputs import find_files
    from kproxy.spark.session.progress import progress

    files = find_files(spark, args.traces, on_empty=warn_empty)
    for file in grown_files(files, batches(spark, args.out) or []):
        warn(f"{file.path} has grown since it was converted; the new lines were skipped: convert only complete files")
    with progress(spark, f"convert {len(files)} files"):
        added = convert(
            spark, files, args.out, capture_options(args), form=args.format, on_batch=partial(warn_unread, damage),
            on_wait=_report_waiting(args),
        )  # fmt: skip
    count = sum(len(batch.files) for batch in added)
    print_message(
        f"{count} of {len(files)} files were new: {sum(batch.lines for batch in added)} lines added to {args.out}"
    )


def repair_table(spark: SparkSession, args: argparse.Namespace) -> None:
    """Remove duplicate lines from a table, and report what was removed."""
    from kproxy.outputs.stderr import print_message, warn
    from kproxy.spark.ingest.repair import repair
    from kproxy.spark.session.progress import progress

    with progress(spark, "repair"):
        batches = repair(spark, args.out, on_wait=_report_waiting(args))
    for batch in batches:
        if batch.again:
            warn(f"batch {batch.number} had lost lines and was removed: convert its {len(batch.again)} files again")
        elif batch.lost:
            warn(f"batch {batch.number} had lost lines, and its source files are gone: its remaining lines are kept")
    if not batches:
        print_message(f"{args.out} has no duplicate lines")
    else:
        print_message(
            f"{sum(batch.removed for batch in batches)} lines were removed from {len(batches)} batches of {args.out}"
        )


def compact_table(args: argparse.Namespace) -> None:
    """Merge the small batches of a table, and report how many there were."""
    check_packages()
    from kproxy.outputs.stderr import print_message
    from kproxy.spark.ingest.compaction import compact
    from kproxy.spark.session.progress import progress

    with progress(None, "compact"):
        merged = compact(args.out, on_wait=_report_waiting(args))
    if merged:
        print_message(f"{len(merged)} batches of {args.out} are one now: {sum(batch.lines for batch in merged)} lines")
    else:
        print_message(f"{args.out} has fewer than two small batches")


def check_packages() -> None:
    """Check that tables can be read and written.

    Raises:
        UserError: A package is missing.
    """
    if any(find_spec(name) is None for name in ("pyspark", "pyarrow")):
        raise UserError(f"kproxy analyze needs an engine: {install_command('analytics')}")


def _report_waiting(args: argparse.Namespace) -> Callable[[], None]:
    from kproxy.outputs.stderr import print_message

    return lambda: print_message(f"waiting: another run is writing to {args.out}")
