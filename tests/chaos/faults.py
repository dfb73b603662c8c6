"""Faults, as data: how to inject and heal them, and the expected reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.chaos.expectations import ExpectedReport
from tests.chaos.rig import Rig

Action: TypeAlias = Callable[[Rig], None]


def _do_nothing(rig: Rig) -> None:
    pass


_HEALTHY = ExpectedReport()


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        reported: Expected reports during the fault.
        healed: Expected reports after `heal`.
        exits: The exit status of each kproxy process: a fault may end one, and healing it may start another.
        stops_traffic: Whether the fault stops all acknowledgements. Otherwise, traffic must continue.
        ended: Expected output if kproxy is stopped (SIGTERM) during the fault; None if that is not tested.
        exit_while_it_lasts: The exit status in that case.
        verbose: Whether the fault is reported only without `--quiet`.
        own_disk: Whether the trace needs a small disk of its own.
        own_hosts: Whether kproxy must resolve the broker's name with a hosts file of its own.
    """

    name: str
    inject: Action
    heal: Action = _do_nothing
    reported: ExpectedReport = _HEALTHY
    healed: ExpectedReport = _HEALTHY
    exits: tuple[int, ...] = (0,)
    stops_traffic: bool = False
    ended: str | None = None
    exit_while_it_lasts: int = 0
    verbose: bool = False
    own_disk: bool = False
    own_hosts: bool = False


NO_FAULT = Fault("nothing", _do_nothing)
