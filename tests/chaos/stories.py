"""The stories, as data: one fault or several, one after the other, under a load."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

from tests.chaos import faults
from tests.chaos.faults import Fault
from tests.chaos.load import Pace


@dataclass(frozen=True)
class Story:
    """Faults one after the other.

    Attributes:
        heals: Otherwise, kproxy has to end while the last fault lasts.
        quick: It is part of .ci/run.
    """

    faults: tuple[Fault, ...]
    inspectors: int = 1
    pace: Pace = field(default_factory=Pace)
    heals: bool = True
    quick: bool = False

    @property
    def name(self) -> str:
        """All of it in a line."""
        name = ", ".join(fault.name for fault in self.faults)
        if not self.heals:
            name += " until the end"
        return name + (f" ({self.inspectors} inspectors)" if self.inspectors > 1 else "")

    @property
    def exits(self) -> list[int]:
        """The exit status of each kproxy that runs: of two that a run deserves, the higher."""
        statuses = [0]
        for fault in self.faults:
            first, *others = fault.exits if self.heals or fault is not self.faults[-1] else [fault.exit_while_it_lasts]
            statuses[-1] = first if first < 0 else max(statuses[-1], first)
            statuses += others
        return statuses


def _stories() -> list[Story]:
    alone = [
        Story((faults.FAULTLESS,)),
        Story((faults.killed_relay(signal.SIGKILL, -signal.SIGKILL),), quick=True),
        Story((faults.killed_relay(signal.SIGTERM, 0),)),
        Story((faults.KILLED_RELAY_OF_STOPPED_INSPECTOR,), quick=True),
        Story((faults.STOPPED_RELAY,)),
        Story((faults.KILLED_INSPECTOR,), quick=True),
        Story((faults.STOPPED_INSPECTOR,), quick=True),
        Story((faults.ignored_term("inspector"),)),
        Story((faults.KILLED_INSPECTOR,), inspectors=2),
        Story((faults.STOPPED_INSPECTOR,), inspectors=2),
        Story((faults.KILLED_WORKER,), inspectors=2, quick=True),
        Story((faults.STOPPED_WORKER,), inspectors=2, quick=True),
        Story((faults.ignored_term("worker 1"),), inspectors=2),
        Story((faults.KILLED_SPAWNER,), quick=True),
        Story((faults.STOPPED_SPAWNER,)),
        Story((faults.ignored_term("spawner"),)),
        Story((faults.KILLED_UPSTREAM,), quick=True),
        Story((faults.MUTE_UPSTREAM,), quick=True),
        Story((faults.FORGOTTEN_UPSTREAM,), quick=True),
        Story((faults.FULL_DISK,), quick=True),
        Story((faults.REMOVED_TRACE,), quick=True),
        Story((faults.REMOVED_DISK,)),
        Story((faults.SHORT_OF_DESCRIPTORS,), quick=True),
        Story((faults.SLOW_READERS,), quick=True),
        Story((faults.SLOW_INSPECTOR,), pace=Pace(3000, 1000)),
        Story((faults.OVERRUN_INSPECTOR,), pace=Pace(2000, 8000)),
    ]
    lasting = [replace(story, heals=False) for story in alone if story.faults[0].ended is not None]
    several = [
        Story((faults.KILLED_INSPECTOR, faults.KILLED_INSPECTOR, faults.killed_relay(signal.SIGKILL, -signal.SIGKILL))),
        Story((faults.KILLED_UPSTREAM, faults.MUTE_UPSTREAM, faults.KILLED_INSPECTOR)),
        Story((faults.FULL_DISK, faults.KILLED_INSPECTOR, faults.SHORT_OF_DESCRIPTORS)),
        Story((faults.KILLED_WORKER, faults.STOPPED_WORKER, faults.KILLED_WORKER), inspectors=2),
    ]
    return alone + lasting + several


STORIES = _stories()
