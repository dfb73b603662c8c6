"""The rules: a file each, registered by its decorator, found by importing the modules of this package.

A rule is a generator function `(event, connection) -> Problem...`. Its docstring is its page; its name is the name of
its findings.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from dissectors.connections.events import InspectionFailed
from dissectors.edits import LOOSE
from dissectors.failures import Failure
from dissectors.findings import Finding, Problem, Severity
from dissectors.trackers import Trackers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import ALL, ANY, Dispatch, FrameFlags, Trigger

Check = Callable[[Any, ConnectionState], Iterator[Problem]]
CheckT = TypeVar("CheckT", bound=Callable[..., Iterator[Problem]])


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule. `since` is the kproxy version that brought it; a code is never used again."""

    code: str
    name: str
    severity: Severity
    blame: str | None
    since: str
    triggers: tuple[Trigger, ...]
    needs: tuple[type[Any], ...]
    check: Check

    @property
    def page(self) -> str:
        """What `kproxy rules CODE` shows."""
        return self.check.__doc__ or ""


_RULES: dict[str, Rule] = {}


def rule(
    code: str,
    *,
    severity: Severity,
    events: tuple[type, ...],
    apis: tuple[str, ...] = (),
    broken: bool = False,
    only: FrameFlags = ANY,
    versions: range = ALL,
    also: tuple[Trigger, ...] = (),
    deadline: str = "",
    needs: tuple[type[Any], ...] = (),
    since: str,
    blame: str | None = None,
) -> Callable[[CheckT], CheckT]:
    """Register a check.

    Args:
        code: Family letter and three digits.
        severity: Of its findings; a problem may say otherwise.
        events: Event classes it wants to see. With `DeadlinePassed`, what it asked for with `connection.expect`.
        apis: Kafka's names of the APIs whose frames it wants to see; none are all.
        broken: It also wants frames that do not read well, that the schemas do not know, or that nobody asked for.
        only: Of frames, it wants those alone in which that is out of the ordinary, unless it is awake
            (`connection.run.subscribe`).
        versions: Of these APIs, the versions whose frames it wants to see.
        also: Other events that it wants to see.
        needs: The trackers whose state it reads; others do not run for it.
        deadline: Of `DeadlinePassed`, the name of the one that it waits for if a tracker sets it; else `code`.
        since: Version of kproxy.
        blame: Who is wrong: ``broker``, ``client``, ``network``, ``proxy``; a problem may say otherwise.
    """
    trigger = Trigger(events, apis, broken, only, versions, deadline)

    def register(check: CheckT) -> CheckT:
        if code in _RULES:
            raise ValueError(f"rule {code} is registered twice")
        name = check.__name__.replace("_", "-")
        _RULES[code] = Rule(code, name, severity, blame, since, (trigger, *also), needs, check)
        return check

    return register


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(_RULES[code] for code in sorted(_RULES))


@functools.cache
def trackers(*also: type[Any]) -> Trackers:
    """The trackers that the rules need, and those that the caller reads itself; a run is made with them (`Cluster`)."""
    return Trackers((*chain.from_iterable(each.needs for each in rules()), *also))


_interested: Dispatch[Rule] = Dispatch(lambda: ((each, each.triggers, each.code) for each in rules()))


def check(event: object, connection: ConnectionState) -> list[Finding]:
    """What the rules say of an event, in the order of their codes; each cause once in a run, then it is counted."""
    found: list[Finding] = []
    for each in _interested(event, connection.flags, connection.run.subscribed):
        try:
            for problem in each.check(event, connection):
                if _is_news(each, problem, event, connection):
                    severity = problem.severity or each.severity
                    found.append(Finding(each.code, each.name, severity, problem.blame or each.blame, problem))
                else:
                    connection.repeated[each.code, each.name] += 1
        except Exception as error:  # noqa: BLE001  # one rule's bug is not the others'
            connection.failures.append(Failure.of(f"checking rule {each.code}", error))
    if connection.failures and type(event) is not InspectionFailed:
        found += failed(event, connection)
    return found


def failed(event: Any, connection: ConnectionState) -> list[Finding]:
    """The findings of steps that failed at this event (`connection.failures`), each cause once in a run."""
    failures, connection.failures = connection.failures, []
    return [
        finding for failure in failures for finding in check(InspectionFailed(event.at, failure, event), connection)
    ]


_INDEX = re.compile(r"\[\d+\]")


def _is_news(rule: Rule, problem: Problem, event: Any, connection: ConnectionState) -> bool:
    message = getattr(event, "message", None)
    what = (message.api_key, message.version, message.is_request) if message is not None else type(event)
    path = _INDEX.sub("[]", problem.path) if problem.path else None
    edit = problem.diagnosis.edit if problem.diagnosis else None
    how = _INDEX.sub("[]", str(edit)) if edit and edit.kind not in LOOSE else None  # how many bytes, or which element
    client = None
    if (problem.blame or rule.blame) == "client":
        client = connection.client_id or connection.client_software
    server = None if isinstance(event, InspectionFailed) else connection.server  # our bugs are not one server's
    cause = (rule.code, server, client, what, path, how, problem.cause)
    return connection.run.is_new_cause(cause, event.at)
