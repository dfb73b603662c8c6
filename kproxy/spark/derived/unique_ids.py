"""Unique connection ids for traces and captures in which ids repeat.

Ids in older traces lack the start of the run, so a container that restarts (the same node, process id 1) reuses them.
Captures with the same file name in several folders also have the same ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.derived.connection_ids import FILE_NAME_PATTERN
from kproxy.trace.connection_ids import start_part

_SCHEMA: Final = "_id string, _opened array<struct<us long, file string, folder string, id string>>"


class Opened(NamedTuple):
    """An open line: its time (us since the epoch), file, `midstream`, and the two ends of the connection."""

    us: int
    file: str | None
    midstream: bool
    client: str | None
    server: str | None


def with_unique_ids(lines: DataFrame, wanted: DataFrame | None = None) -> DataFrame:
    """Return lines in which each id belongs to only one connection; the open lines are read once.

    Connections with the same id are told apart by their open lines. The id of each then has the time of that line as
    its second to last part: ``vm-1-1`` becomes ``vm-1-20261121T031737801-1``. A line belongs to the connection whose
    open line is in its file, else in its folder, else anywhere; among several, to the last one opened before it. Ids
    that do not repeat stay as they are.

    Args:
        lines: Rows of ROW.
        wanted: The lines to return, which may lack open lines; by default all.
    """
    wanted = lines if wanted is None else wanted
    is_midstream = F.coalesce("midstream", F.lit(False)).alias("midstream")
    opened = F.struct(F.unix_micros("ts").alias("us"), "file", is_midstream, "client", "server")
    repeated_ids = (
        lines.where((F.col("kind") == "open") & (F.col("connection_id") != ""))
        .groupBy("connection_id")
        .agg(F.count("*").alias("times"), F.collect_list(opened).alias("opened"))
        .where(F.col("times") > 1)
        .collect()
    )
    rows = []
    for row in repeated_ids:
        connection_id: str = row["connection_id"]
        ids = identify_connections(connection_id, (Opened(*row) for row in row["opened"]))
        if len({id_ for _, id_ in ids}) > 1:
            rows.append((connection_id, [(opened.us, opened.file, folder_of(opened.file), id_) for opened, id_ in ids]))
    if not rows:
        return wanted
    ids_by_name = F.broadcast(lines.sparkSession.createDataFrame(rows, _SCHEMA))
    joined = wanted.join(ids_by_name, F.col("connection_id") == F.col("_id"), "left")
    return joined.withColumn("connection_id", F.coalesce(_own_id(), "connection_id")).drop("_id", "_opened")


def identify_connections(connection_id: str, opened: Iterable[Opened]) -> Sequence[tuple[Opened, str]]:
    """Return the open lines of an id in order of time, each with the unique id of its connection.

    An open line begins another connection, unless it is `midstream` (also written when an inspector restarts) and names
    the same ends as the previous one.
    """
    source, _, number = connection_id.rpartition("-")
    ids: list[tuple[Opened, str]] = []
    for open_line in sorted(opened, key=lambda line: (line.us, line.file or "")):
        previous = ids[-1] if ids else None
        if previous is not None and open_line.midstream and open_line[3:] == previous[0][3:]:
            ids.append((open_line, previous[1]))
        else:
            ids.append((open_line, f"{source}-{start_part(open_line.us * 1000)}-{number}"))
    return ids


def folder_of(file: str | None) -> str | None:
    """Return the folder of a trace without its date and hour, as `_own_id` does."""
    return None if file is None else re.sub(FILE_NAME_PATTERN, "", file)


def _own_id() -> Column:
    """Return the unique id of a line's connection; null if its id does not repeat."""
    at = F.unix_micros("ts")
    folder = F.regexp_replace("file", FILE_NAME_PATTERN, "")
    in_file = F.filter("_opened", lambda connection: connection["file"] == F.col("file"))
    in_folder = F.filter("_opened", lambda connection: connection["folder"] == folder)
    candidates = F.when(F.size(in_file) > 0, in_file).when(F.size(in_folder) > 0, in_folder).otherwise(F.col("_opened"))
    earlier_connections = F.filter(candidates, lambda connection: connection["us"] <= at)
    return F.coalesce(F.get(earlier_connections, F.size(earlier_connections) - 1), F.get(candidates, F.lit(0)))["id"]
