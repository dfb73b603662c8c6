"""Connection ids: NODE-PID-START-N from a proxy, FILE-N from a capture."""

from __future__ import annotations

from kproxy.trace.timestamps import timestamp


def run_name(node: str, pid: int, started: int) -> str:
    """Return the prefix of a run's connection ids: ``web-1-4711-20261121T031737801``.

    The start makes it unique: a restarted container has the same node and process id as before.

    Args:
        node: The proxy's name: letters, digits, dots and dashes.
        pid: The process id of the relay.
        started: When the relay started, in ns since the epoch.
    """
    return f"{node}-{pid}-{start_part(started)}"


def start_part(at: int) -> str:
    """Return the part of an id for a time (ns since the epoch), in UTC with milliseconds: ``20261121T031737801``."""
    return timestamp(at)[:23].replace("-", "").replace(":", "").replace(".", "")
