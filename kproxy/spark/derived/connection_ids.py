"""What a connection id says: NODE-PID-N of a proxy, FILE-N of a capture."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def source(*, across_runs: bool = False) -> Column:
    """Where a line is from: one run of a proxy (NODE-PID), or a capture (FILE).

    Args:
        across_runs: All runs of a proxy on a node are one source (NODE), so that a restart changes nothing.
    """
    return F.regexp_replace("connection_id", "(-[0-9]+){1,2}$" if across_runs else "-[0-9]+$", "")
