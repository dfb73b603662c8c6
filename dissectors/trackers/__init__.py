"""Trackers: state over time that several rules share, one file each. Trackers see each event before the rules do.

A tracker is a class with `observe(event, connection)`. The run has one of it (`connection.run.state(Groups)`), or
each connection (`connection.state(Sessions)`). It runs only if a rule or another tracker declares that it needs
it, and after the trackers that it needs itself. State that only one rule needs is defined in that rule's module and
obtained in the same way. Whatever grows with what peers send is bounded (`dissectors.bounded`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, TypeVar

from dissectors.trackers.triggers import ALL, ANY, Dispatch, FrameFlags, Trigger

TrackerT = TypeVar("TrackerT", bound=type[Any])


@dataclass(frozen=True, slots=True)
class Tracker:
    """A registered class: one instance for the run if `is_shared`, else one for each connection.

    `needs` are the classes whose state it reads, `keeps` the classes of further state that it fills.
    `flags` are those that it adds to frames, so that rules which ask for them need it too.
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
    """Register a tracker class, one for the run (``run``) or for each connection (``connection``).

    What it wants to hear is said as for rules; its code, by which it is woken, is the name of the class. It runs after
    the classes that it `needs`. Others that need a class in `keeps`, or frames with its
    `flags`, need this one.
    """
    trigger = Trigger(events, apis, broken, only, versions)

    def register(kind: TrackerT) -> TrackerT:
        made = Tracker(kind, per == "run", (trigger, *also), needs, keeps, flags)
        for each in (kind, *keeps):
            _TRACKERS[each] = made
        return kind

    return register


def in_order(needed: Iterable[type[Any]]) -> tuple[Tracker, ...]:
    """The trackers that fill these classes and what they need in turn, each after those that it needs.

    Raises:
        KeyError: No tracker fills one of the classes.
        graphlib.CycleError: Trackers need each other.
    """
    graph: dict[type[Any], tuple[type[Any], ...]] = {}
    waiting = list(needed)
    while waiting:
        tracker = _TRACKERS[waiting.pop()]
        if tracker.kind not in graph:
            graph[tracker.kind] = tuple(_TRACKERS[each].kind for each in tracker.needs)
            waiting += tracker.needs
    named = sorted(graph, key=lambda kind: (kind.__module__, kind.__name__))  # the same order in every process
    return tuple(_TRACKERS[kind] for kind in TopologicalSorter({kind: graph[kind] for kind in named}).static_order())


class Trackers:
    """The trackers of a run.

    Args:
        needed: The classes of state that its rules and its lines read.
    """

    def __init__(self, needed: Iterable[type[Any]] = ()) -> None:
        self.order = in_order(needed)
        #: The trackers that want to see an event.
        self.interested = Dispatch(lambda: ((each, each.triggers, each.kind.__name__) for each in self.order))
        self._kinds = frozenset(kind for each in self.order for kind in (each.kind, *each.keeps))

    def check(self, kind: type[Any]) -> None:
        """Refuse state that nobody fills.

        Raises:
            LookupError: A tracker fills it that does not run, because nobody declared a need for it.
        """
        if kind in _TRACKERS and kind not in self._kinds:
            raise LookupError(f"{kind.__name__} is read, but no rule declares that it needs it")


#: Of a run without rules.
NO_TRACKERS = Trackers()
