"""The rules: a file each, registered by its decorator, found by importing the modules of this package.

A rule is a generator function `(event, conversation) -> Problem...`; its docstring is its page, its name the finding's.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from dissectors.conversation import Conversation
from dissectors.findings import Finding, Problem, Severity

Check = Callable[[Any, Conversation], Iterator[Problem]]
CheckT = TypeVar("CheckT", bound=Callable[..., Iterator[Problem]])


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule. `since` is the kproxy version that brought it; a code is never used again."""

    code: str
    name: str
    severity: Severity
    blame: str | None
    since: str
    events: tuple[type, ...]
    check: Check

    @property
    def page(self) -> str:
        """What `kproxy rules CODE` shows."""
        return self.check.__doc__ or ""


_RULES: dict[str, Rule] = {}


def rule(
    code: str, *, severity: Severity, events: tuple[type, ...], since: str, blame: str | None = None
) -> Callable[[CheckT], CheckT]:
    """Register a check for the events of some types.

    Args:
        code: Family letter and three digits.
        severity: Of its findings.
        events: Event classes it wants to see.
        since: Version of kproxy.
        blame: Who is wrong: ``broker``, ``client``, ``network``; a problem may say otherwise.
    """

    def register(check: CheckT) -> CheckT:
        if code in _RULES:
            raise ValueError(f"rule {code} is registered twice")
        _RULES[code] = Rule(code, check.__name__.replace("_", "-"), severity, blame, since, events, check)
        return check

    return register


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_RULES[code] for code in sorted(_RULES))


@functools.cache
def _checks() -> dict[type, tuple[Rule, ...]]:
    """The rules by the type of event that they want to see."""
    types = {event for each in rules() for event in each.events}
    return {event: tuple(each for each in rules() if event in each.events) for event in types}


def check(event: object, conversation: Conversation) -> list[Finding]:
    """What the rules say of an event, in the order of their codes."""
    return [
        Finding(each.code, each.name, each.severity, each.blame, problem)
        for each in _checks().get(type(event), ())
        for problem in each.check(event, conversation)
    ]
