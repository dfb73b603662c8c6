"""Writes the tables of jobs, and the HTML report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli.analyze.lines import EPOCH, LineSelection, capture_options, condition, warn_empty, warn_unread
from kproxy.cli.analyze.session import cause_of
from kproxy.cli.damage import InputDamage
from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kproxy.spark.ingest.lines import Lines

#: The status of gRPC if the server is gone, so that no other table can be made either.
_SERVER_GONE = "StatusCode.UNAVAILABLE"


def analyze(spark: SparkSession, args: argparse.Namespace, selection: LineSelection, damage: InputDamage) -> None:
    """Write the requested tables, the report, or both.

    Raises:
        UserError: A table failed; the others are written.
    """
    from kproxy.outputs.stderr import print_message
    from kproxy.spark import jobs
    from kproxy.spark.derived.cache import shared_results
    from kproxy.spark.ingest.lines import Period, open_lines
    from kproxy.spark.session.embedded_engine import is_embedded
    from kproxy.spark.session.errors import ENGINE_ERRORS
    from kproxy.spark.session.progress import progress

    names = args.job or [name for name in jobs.names() if args.out or name not in jobs.STORED]
    period = Period(selection.since, selection.until)
    period_with_history = period
    if selection.since is not None and args.history and (args.html or "anomalies" in names):
        history = min(args.history, selection.since - EPOCH)
        period_with_history = Period(selection.since - history, selection.until)
    if selection.sample is not None:
        print_message(
            f"counts and bytes are those of the sample only: {100 * selection.sample:.3g} % of the connections"
        )
    with ExitStack() as stack:
        with progress(spark, "read"):
            opened = open_lines(
                spark, args.traces, capture_options(args), period=period_with_history, where=condition(selection),
                on_batch=partial(warn_unread, damage), on_empty=warn_empty,
            )  # fmt: skip
            lines = stack.enter_context(opened)
            rows = lines.rows if period_with_history == period else lines.rows.where(period.column())
            stack.enter_context(shared_results(rows, jobs.names() if args.html else names))
        options = {"time_zone": args.time_zone, "since": selection.since if args.history else None}
        own_jobs = {"anomalies": partial(jobs.find("anomalies").run, lines.rows, **options)}
        if args.html:
            _write_report(spark, replace(lines, rows=rows), own_jobs, args)
            if not args.out:
                return
        errors_by_job: dict[str, str] = {}
        for position, (job, table) in enumerate(jobs.plan_jobs(names, rows, own_jobs), start=1):
            progress_display = progress(spark, f"{job.name} ({position} of {len(names)})")
            try:
                _write_table(table, job.name, args, progress_display, has_several_clusters=len(lines.clusters) > 1)
            except ENGINE_ERRORS as error:  # the other tables may succeed
                if _SERVER_GONE in str(error):
                    raise
                errors_by_job[job.name] = cause_of(error)
    if errors_by_job:
        engine, failed_names = "the embedded engine" if is_embedded(spark) else "Spark", ", ".join(errors_by_job)
        raise UserError(f"{engine} could not make {failed_names}: {next(iter(errors_by_job.values()))}")


def _write_report(
    spark: SparkSession, lines: Lines, own_jobs: Mapping[str, Callable[[], DataFrame]], args: argparse.Namespace
) -> None:
    from kproxy.spark.report.contents import figures
    from kproxy.spark.report.pages import report
    from kproxy.spark.session.progress import progress

    content = report(
        figures(lines.rows, partial(progress, spark), clusters=lines.clusters, overrides=own_jobs),
        args.traces,
    )
    try:
        Path(args.html).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{args.html}: {error.strerror}") from None


def _write_table(
    make_table: Callable[[], DataFrame],
    name: str,
    args: argparse.Namespace,
    progress_display: AbstractContextManager[None],
    *,
    has_several_clusters: bool,
) -> None:
    """Write a table while `progress_display` is shown. As text, it has a cluster column only for several clusters."""
    from kproxy.spark.derived.clusters import CLUSTER
    from kproxy.spark.tables import first_rows, write_csv, write_files, write_json, write_table

    if args.out:
        with progress_display:
            write_files(make_table(), f"{args.out}/{name}", args.format or "parquet")
    elif args.format in ("json", "csv"):
        with nullcontext() if sys.stdout.isatty() else progress_display:  # a terminal cannot show both at once
            write_json(make_table(), name, sys.stdout) if args.format == "json" else write_csv(make_table(), sys.stdout)
    else:
        with progress_display:
            table = make_table() if has_several_clusters else make_table().drop(CLUSTER)
            rows = first_rows(table, args.rows)
        write_table(table, name, rows, args.rows, sys.stdout)
        sys.stdout.flush()  # the next table may take a while
