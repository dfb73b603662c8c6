"""The parts of a connection id: NODE-PID-START-N from a proxy, FILE-N from a capture."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

#: The start of a run, as `kproxy.trace.connection_ids.start_part` writes it. Older traces do not have it.
_START: Final = "-[0-9]{8}T[0-9]{9}"

#: The end of a file's path: the date and hour of a trace, and the name. Its parent is the folder of one proxy or more.
FILE_NAME_PATTERN: Final = r"(/date=[^/]*)?(/hour=[^/]*)?/[^/]*$"


def source(*, across_runs: bool = False) -> Column:
    """Return the source of a line: one run of a proxy (NODE-PID-START), or a capture (FILE).

    Args:
        across_runs: Treat all runs of a proxy on a node as one source (NODE), so that a restart changes nothing.
    """
    suffix = f"(-[0-9]+)?({_START})?-[0-9]+$" if across_runs else "-[0-9]+$"
    return F.regexp_replace("connection_id", suffix, "")
