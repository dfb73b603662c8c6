"""The parts of a connection id: NODE-PID-N from a proxy, FILE-N from a capture."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def source(*, across_runs: bool = False) -> Column:
    """The source of a line: one run of a proxy (NODE-PID), or a capture (FILE).

    Args:
        across_runs: Treat all runs of a proxy on a node as one source (NODE), so that a restart changes nothing.
    """
    return F.regexp_replace("connection_id", "(-[0-9]+){1,2}$" if across_runs else "-[0-9]+$", "")
