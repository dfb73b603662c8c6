"""Check: one property of a broker, with a stable id, and its result."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kproxy.inspection.explain import Explanation

if TYPE_CHECKING:
    from kproxy.probe.target import Target

Outcome: TypeAlias = Literal["pass", "fail", "skip"]
#: Tests the property; returns if the broker has it, and otherwise raises `CheckFailed` or `CheckSkipped`.
RunCheck: TypeAlias = "Callable[[Target], Awaitable[object]]"


class CheckFailed(Exception):
    """Raised if the broker lacks the property. The message is one sentence; `evidence` has the frames that show it."""

    def __init__(self, sentence: str, *evidence: Explanation) -> None:
        super().__init__(sentence)
        self.evidence = evidence


class BrokerGone(Exception):
    """Raised if the broker no longer accepts connections, so that nothing else can be tested."""


class CheckSkipped(Exception):
    """Raised if the check does not apply to this broker. The message is the reason, without a final period."""


@dataclass(frozen=True, slots=True)
class Check:
    """A property that a broker should have.

    Attributes:
        id: A stable id: ``Metadata/v1/2``, ``framing/split-frame``.
        title: The property, as a sentence about the broker.
        page: Why it matters, in paragraphs.
        sources: The KIPs and Kafka source files that define it.
        run: The function that tests it.
        writes: Whether it creates topics, records or groups, and therefore needs ``--write``.
    """

    id: str
    title: str
    page: str
    sources: tuple[str, ...]
    run: RunCheck
    writes: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a check; `sentence` is the reason for a failure or a skip."""

    check: Check
    outcome: Outcome
    sentence: str = ""
    evidence: tuple[Explanation, ...] = ()
    duration_ms: float = 0.0


#: Registered checks, and functions that make several checks each.
_REGISTERED: dict[str, Check] = {}
_FAMILIES: list[Callable[[], Iterable[Check]]] = []


def check(id: str, *sources: str, writes: bool = False) -> Callable[[RunCheck], RunCheck]:
    """Return a decorator that registers a check. The docstring's first line is the title, the rest the page."""

    def register(run: RunCheck) -> RunCheck:
        title, _, page = (inspect.getdoc(run) or "").partition("\n")
        if id in _REGISTERED:
            raise ValueError(f"two checks have the id {id}")
        _REGISTERED[id] = Check(id, title, page.strip(), sources, run, writes)
        return run

    return register


def family(make_checks: Callable[[], Iterable[Check]]) -> Callable[[], Iterable[Check]]:
    """Register a function that makes several checks of the same kind."""
    _FAMILIES.append(make_checks)
    return make_checks


@functools.cache
def checks() -> tuple[Check, ...]:
    """Return all checks, in the order of their files."""
    package = importlib.import_module("kproxy.probe.checks")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return (*(check for make_checks in _FAMILIES for check in make_checks()), *_REGISTERED.values())
