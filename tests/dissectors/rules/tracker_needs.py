"""The trackers whose state a rule or a tracker reads, found in its code and in the functions that this calls."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

from dissectors.trackers import _TRACKERS, Tracker


def keeper(kind: type[Any]) -> Tracker | None:
    """The tracker that fills a class of state, None for the private state of a rule."""
    return _TRACKERS.get(kind)


def read_by(code: FunctionType | type[Any]) -> set[type[Any]]:
    """The classes of state that a function, or the methods of a class, name: those that a tracker fills."""
    found: set[type[Any]] = set()
    known: set[Any] = {code}
    waiting: list[FunctionType] = [code] if isinstance(code, FunctionType) else _methods(code)
    while waiting:
        function = waiting.pop()
        for name in _names(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, type) and keeper(value) is not None:
                found.add(value)
            elif (
                isinstance(value, FunctionType | type)
                and value.__module__.startswith("dissectors.")
                and value not in known
            ):
                known.add(value)
                waiting += [value] if isinstance(value, FunctionType) else _methods(value)
    return found


def _names(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _methods(kind: type[Any]) -> list[FunctionType]:
    found = (getattr(each, "fget", None) or each for each in vars(kind).values())
    return [each for each in found if isinstance(each, FunctionType)]
