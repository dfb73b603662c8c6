"""Connection ids: NODE-PID-START-N of a proxy, FILE-N of a capture."""

from __future__ import annotations

from kproxy.trace.timestamps import timestamp


def run_name(node: str, pid: int, started: int) -> str:
    """Return the prefix of a run's connection ids: ``web-1-4711-20261121T031737801``.

    The start makes it unique: a container that restarts has the node and the process id that it had before.

    Args:
        node: The proxy's name: letters, digits, dots and dashes.
        pid: The process id of the relay.
        started: When the relay began, in ns since the epoch.
    """
    return f"{node}-{pid}-{start_part(started)}"


def start_part(at: int) -> str:
    """The part of an id that names a time (ns since the epoch), in UTC with milliseconds: ``20261121T031737801``."""
    return timestamp(at)[:23].replace("-", "").replace(":", "").replace(".", "")
