"""A fault, as data: how to inject and heal it, and what must be reported of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.chaos.expectations import Reported
from tests.chaos.rig import Rig

Action: TypeAlias = Callable[[Rig], None]


def _nothing(rig: Rig) -> None:
    pass


_HEALTHY = Reported()


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        reported: While it lasts.
        healed: After `heal`.
        exits: The exit status of each kproxy that ran: a fault may end one, and its heal start another.
        stops_traffic: Nothing can be acknowledged while it lasts. Otherwise, traffic must go on.
        ended: What must be printed, if kproxy is to end (SIGTERM) while the fault lasts; None if it cannot.
        exit_while_it_lasts: The exit status then.
        verbose: It is reported only without `--quiet`.
        own_disk: It needs a small disk for the trace.
        own_hosts: It needs the broker's name to be resolved by a file.
    """

    name: str
    inject: Action
    heal: Action = _nothing
    reported: Reported = _HEALTHY
    healed: Reported = _HEALTHY
    exits: tuple[int, ...] = (0,)
    stops_traffic: bool = False
    ended: str | None = None
    exit_while_it_lasts: int = 0
    verbose: bool = False
    own_disk: bool = False
    own_hosts: bool = False


FAULTLESS = Fault("nothing", _nothing)
