"""Ledgers: what several rules want to know of the past, a file each, kept up to date before any rule sees an event.

A ledger is a class with `observe(event, conversation)`; the run has one of it (`connection.run.state(Groups)`), or
each connection (`connection.state(Sessions)`). State that one rule alone needs stands beside that rule, and is
had in the same way. Whatever grows with what peers send is bounded (`BoundedDict`).
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from dissectors.trackers.triggers import ALL, ANY, Dispatch, FrameFlags, Trigger


class Tracker(Protocol):
    """What keeps account."""

    def observe(self, event: Any, connection: Any) -> None:
        """Take in an event that its trigger lets through."""


TrackerT = TypeVar("TrackerT", bound=type[Any])
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_TRACKERS: list[tuple[tuple[type[Any], bool], tuple[Trigger, ...], str]] = []


def tracker(
    *,
    events: tuple[type, ...],
    apis: tuple[str, ...] = (),
    broken: bool = False,
    only: FrameFlags = ANY,
    versions: range = ALL,
    also: tuple[Trigger, ...] = (),
    per: str = "cluster",
) -> Callable[[TrackerT], TrackerT]:
    """Register a ledger class, one for the run (``run``) or for each connection (``connection``).

    What it wants to hear is said as for rules; its code, by which it is woken, is the name of the class.
    """
    trigger = Trigger(events, apis, broken, only, versions)

    def register(kind: TrackerT) -> TrackerT:
        _TRACKERS.append(((kind, per == "cluster"), (trigger, *also), kind.__name__))
        return kind

    return register


def _all() -> list[tuple[tuple[type[Any], bool], tuple[Trigger, ...], str]]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _TRACKERS


#: The ledgers that want to see an event: their class, and whether the whole run has one.
interested: Dispatch[tuple[type[Any], bool]] = Dispatch(functools.cache(_all))


class BoundedDict(OrderedDict[KeyT, ValueT]):
    """A dict that forgets what was set or touched longest ago when it holds more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        before = len(self)
        super().__setitem__(key, value)
        if len(self) == before:
            self.move_to_end(key)
        elif before >= self.most:
            self.popitem(last=False)

    def touch(self, key: KeyT, make: Callable[[], ValueT]) -> ValueT:
        """The value of `key`, made if there is none, as the newest."""
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
        return self[key]
