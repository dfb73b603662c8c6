"""What must be reported of a fault, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reported:
    """Each part must hold within `seconds`, at least once: a part that is restarted is down only for a second.

    Attributes:
        message: A regular expression that matches somewhere in what kproxy has printed.
        health: A regular expression that matches somewhere in `STATUS BODY` of /healthz.
        metrics: Comparisons with /metrics, such as `kproxy_inspector_up == 0`.
    """

    message: str = ""
    health: str = "^200 "
    metrics: tuple[str, ...] = ()
    seconds: float = 5
