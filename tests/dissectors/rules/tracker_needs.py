"""Find the trackers whose state a rule or a tracker reads, in its code and in the functions that it calls."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

from dissectors.trackers import _TRACKERS, Tracker


def find_tracker(kind: type[Any]) -> Tracker | None:
    """Return the tracker that fills a class of state, or None for the private state of a rule."""
    return _TRACKERS.get(kind)


def trackers_read_by(code: FunctionType | type[Any]) -> set[type[Any]]:
    """Return the classes of state, filled by a tracker, that a function or the methods of a class mention."""
    read_kinds: set[type[Any]] = set()
    visited: set[Any] = {code}
    pending: list[FunctionType] = [code] if isinstance(code, FunctionType) else _methods(code)
    while pending:
        function = pending.pop()
        for name in _global_names(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, type) and find_tracker(value) is not None:
                read_kinds.add(value)
            elif (
                isinstance(value, FunctionType | type)
                and value.__module__.startswith("dissectors.")
                and value not in visited
            ):
                visited.add(value)
                pending += [value] if isinstance(value, FunctionType) else _methods(value)
    return read_kinds


def _global_names(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _methods(kind: type[Any]) -> list[FunctionType]:
    functions = (getattr(attribute, "fget", None) or attribute for attribute in vars(kind).values())
    return [attribute for attribute in functions if isinstance(attribute, FunctionType)]
