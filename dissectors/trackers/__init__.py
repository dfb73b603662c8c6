"""Trackers: state over time that several rules share, one file each. They observe each event before the rules do.

A tracker is a class with `observe(event, connection)`. There is one instance per run (`connection.run.state(Groups)`)
or one per connection (`connection.state(Sessions)`). It runs only if a rule or another tracker declares that it needs
it, and after the trackers that it itself needs. State that only one rule needs is defined in that rule's module and
obtained in the same way. State that grows with what peers send must be bounded (`dissectors.bounded`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import chain
from typing import Any, TypeVar

from dissectors.connections.events import FRAME_EVENTS
from dissectors.trackers.triggers import ALL, ANY, Dispatch, FrameFlags, Trigger

TrackerT = TypeVar("TrackerT", bound=type[Any])


@dataclass(frozen=True, slots=True)
class Tracker:
    """A registered tracker class: one instance per run if `is_shared`, else one per connection.

    `needs` lists the classes whose state it reads, `keeps` the additional classes of state that it updates. `flags` are
    the frame flags that it sets; rules that select frames by these flags need this tracker.
    """

    kind: type[Any]
    is_shared: bool
    triggers: tuple[Trigger, ...]
    needs: tuple[type[Any], ...]
    keeps: tuple[type[Any], ...]
    flags: FrameFlags


_TRACKERS: dict[type[Any], Tracker] = {}


def tracker(
    *,
    events: tuple[type, ...],
    apis: tuple[str, ...] = (),
    broken: bool = False,
    only: FrameFlags = ANY,
    versions: range = ALL,
    also: tuple[Trigger, ...] = (),
    needs: tuple[type[Any], ...] = (),
    keeps: tuple[type[Any], ...] = (),
    flags: FrameFlags = ANY,
    per: str = "run",
) -> Callable[[TrackerT], TrackerT]:
    """Register a tracker class with one instance per run (``run``) or per connection (``connection``).

    A tracker selects events as rules do. Its deadlines have the class name as their code. It runs after the classes
    that it `needs`. Trackers and rules that need a class in `keeps`, or frames with its `flags`, need this tracker.
    """
    trigger = Trigger(events, apis, broken, only, versions)

    def register(kind: TrackerT) -> TrackerT:
        registered = Tracker(kind, per == "run", (trigger, *also), needs, keeps, flags)
        for state in (kind, *keeps):
            _TRACKERS[state] = registered
        return kind

    return register


def trackers_in_order(kinds_needed: Iterable[type[Any]]) -> tuple[Tracker, ...]:
    """Return the trackers that update these classes, and the trackers that those need, in dependency order.

    Raises:
        KeyError: No tracker updates one of the classes.
        graphlib.CycleError: Trackers need each other.
    """
    graph: dict[type[Any], tuple[type[Any], ...]] = {}
    remaining = list(kinds_needed)
    while remaining:
        tracker = _TRACKERS[remaining.pop()]
        if tracker.kind not in graph:
            graph[tracker.kind] = tuple(_TRACKERS[need].kind for need in tracker.needs)
            remaining += tracker.needs
    kinds = sorted(graph, key=lambda kind: (kind.__module__, kind.__name__))  # a deterministic order
    return tuple(_TRACKERS[kind] for kind in TopologicalSorter({kind: graph[kind] for kind in kinds}).static_order())


class Trackers:
    """The trackers of a run.

    Args:
        needed: The classes of state that the run's rules and lines read.
    """

    def __init__(self, needed: Iterable[type[Any]] = ()) -> None:
        self.order = trackers_in_order(needed)
        #: The trackers that have subscribed to an event.
        self.subscribers = Dispatch(
            lambda: ((tracker, tracker.triggers, tracker.kind.__name__) for tracker in self.order)
        )
        self._kinds = frozenset(kind for tracker in self.order for kind in (tracker.kind, *tracker.keeps))

    @property
    def apis(self) -> frozenset[str] | None:
        """The APIs whose frames the trackers observe; None for all."""
        triggers = (trigger for tracker in self.order for trigger in tracker.triggers)
        apis_of_triggers = [trigger.apis for trigger in triggers if not set(FRAME_EVENTS).isdisjoint(trigger.events)]
        return frozenset(chain.from_iterable(apis_of_triggers)) if all(apis_of_triggers) else None

    def check(self, kind: type[Any]) -> None:
        """Check that a class of state is updated in this run.

        Raises:
            LookupError: The tracker that updates it does not run, because no rule declares that it needs it.
        """
        if kind in _TRACKERS and kind not in self._kinds:
            raise LookupError(f"{kind.__name__} is read, but no rule declares that it needs it")


#: For runs without rules.
NO_TRACKERS = Trackers()
