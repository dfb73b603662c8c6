"""`kproxy analyze convert`: traces and captures to a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kproxy.cli.analyze.lines import decoding, warn_empty, warn_unread
from kproxy.cli.errors import CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def convert_files(spark: SparkSession, args: argparse.Namespace) -> None:
    """Convert what is new, and say how much that was."""
    from kproxy.outputs.stderr import say, warn
    from kproxy.spark.reading.convert import OtherFormat, batches, convert, grown
    from kproxy.spark.reading.inputs import find_files
    from kproxy.spark.session.progress import progress

    files = find_files(spark, args.traces, empty=warn_empty)
    for file in grown(files, batches(spark, args.out) or []):
        warn(f"{file.path} has grown since it was converted, what came since is left out; convert whole files")
    try:
        with progress(spark, "convert"):
            added = convert(spark, files, args.out, decoding(args), form=args.format, made=warn_unread)
    except OtherFormat as error:
        raise CommandError(str(error)) from None
    count = sum(len(batch.files) for batch in added)
    say(f"{count} of {len(files)} files were new: {sum(batch.lines for batch in added)} lines are in {args.out} now")
