"""Expected reports about a fault, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExpectedReport:
    """Conditions that must each hold at least once within `timeout`, not all at once: a restart takes only a second.

    Attributes:
        message: A regular expression that matches somewhere in the output of kproxy.
        health: A regular expression that matches somewhere in `STATUS BODY` of /healthz.
        metrics: Comparisons with /metrics, such as `kproxy_inspector_up == 0`.
    """

    message: str = ""
    health: str = "^200 "
    metrics: tuple[str, ...] = ()
    timeout: float = 5
