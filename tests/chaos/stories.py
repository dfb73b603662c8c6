"""The stories, as data: one or more successive faults under load."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

from tests.chaos import environment_faults, process_faults
from tests.chaos.faults import NO_FAULT, Fault
from tests.chaos.load import Pace


@dataclass(frozen=True)
class Story:
    """One or more successive faults under load.

    Attributes:
        heals: Whether the last fault is healed before kproxy is stopped.
        quick: Whether the story is part of .ci/run.
    """

    faults: tuple[Fault, ...]
    inspectors: int = 1
    pace: Pace = field(default_factory=Pace)
    heals: bool = True
    quick: bool = False

    @property
    def name(self) -> str:
        """The names of the faults, in one line."""
        name = ", ".join(fault.name for fault in self.faults)
        if not self.heals:
            name += " until the end"
        return name + (f" ({self.inspectors} inspectors)" if self.inspectors > 1 else "")

    @property
    def exits(self) -> list[int]:
        """The expected exit status of each kproxy; if two apply, the higher."""
        statuses = [0]
        for fault in self.faults:
            first_status, *later_statuses = (
                fault.exits if self.heals or fault is not self.faults[-1] else [fault.exit_while_it_lasts]
            )
            statuses[-1] = first_status if first_status < 0 else max(statuses[-1], first_status)
            statuses += later_statuses
        return statuses


def _stories() -> list[Story]:
    single_faults = [
        Story((NO_FAULT,)),
        Story((process_faults.killed_relay(signal.SIGKILL, -signal.SIGKILL),), quick=True),
        Story((process_faults.killed_relay(signal.SIGTERM, 0),)),
        Story((process_faults.KILLED_RELAY_OF_STOPPED_INSPECTOR,), quick=True),
        Story((process_faults.STOPPED_RELAY,)),
        Story((process_faults.KILLED_INSPECTOR,), quick=True),
        Story((process_faults.STOPPED_INSPECTOR,), quick=True),
        Story((process_faults.ignored_sigterm("inspector"),)),
        Story((process_faults.KILLED_INSPECTOR,), inspectors=2),
        Story((process_faults.STOPPED_INSPECTOR,), inspectors=2),
        Story((process_faults.KILLED_WORKER,), inspectors=2, quick=True),
        Story((process_faults.STOPPED_WORKER,), inspectors=2, quick=True),
        Story((process_faults.ignored_sigterm("worker 1"),), inspectors=2),
        Story((process_faults.KILLED_SPAWNER,), quick=True),
        Story((process_faults.STOPPED_SPAWNER,)),
        Story((process_faults.ignored_sigterm("spawner"),)),
        Story((environment_faults.KILLED_UPSTREAM,), quick=True),
        Story((environment_faults.UNRESPONSIVE_UPSTREAM,), quick=True),
        Story((environment_faults.UNRESOLVABLE_UPSTREAM,), quick=True),
        Story((environment_faults.FULL_DISK,), quick=True),
        Story((environment_faults.REMOVED_TRACE,), quick=True),
        Story((environment_faults.REMOVED_DISK,)),
        Story((environment_faults.SHORT_OF_DESCRIPTORS,), quick=True),
        Story((environment_faults.SLOW_READERS,), quick=True),
        Story((process_faults.SLOW_INSPECTOR,), pace=Pace(3000, 1000)),
        Story((process_faults.OVERRUN_INSPECTOR,), pace=Pace(2000, 8000)),
    ]
    unhealed = [replace(story, heals=False) for story in single_faults if story.faults[0].ended is not None]
    combinations = [
        Story(
            (
                process_faults.KILLED_INSPECTOR,
                process_faults.KILLED_INSPECTOR,
                process_faults.killed_relay(signal.SIGKILL, -signal.SIGKILL),
            )
        ),
        Story(
            (
                environment_faults.KILLED_UPSTREAM,
                environment_faults.UNRESPONSIVE_UPSTREAM,
                process_faults.KILLED_INSPECTOR,
            )
        ),
        Story((environment_faults.FULL_DISK, process_faults.KILLED_INSPECTOR, environment_faults.SHORT_OF_DESCRIPTORS)),
        Story(
            (process_faults.KILLED_WORKER, process_faults.STOPPED_WORKER, process_faults.KILLED_WORKER), inspectors=2
        ),
    ]
    return single_faults + unhealed + combinations


STORIES = _stories()
