"""The registry of rules, and the function that checks one event with all of them.

A rule is a generator function `(event, connection) -> Iterator[Problem]` in a file of its own. The `rule` decorator
registers it; `rules` imports every module of this package. The function's docstring is the rule's page, and its name
is the name of its findings.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from dissectors.connections.events import FRAME_EVENTS, InspectionFailed, JudgingLimited, RecordsDecoded
from dissectors.failures import Failure
from dissectors.findings import Finding, Problem, Severity, location_of_cause, without_indexes
from dissectors.limits import Limit
from dissectors.messages.message import Message, OutOfSteps
from dissectors.trackers import Trackers
from dissectors.trackers.losses import Losses
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import MAX_REPEATS, ConnectionState, Place, Repeat
from dissectors.trackers.triggers import ALL, ANY, Dispatch, FrameFlags, Trigger

Check = Callable[[Any, ConnectionState], Iterator[Problem]]
CheckT = TypeVar("CheckT", bound=Callable[..., Iterator[Problem]])


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule; `dissectors.rules.rules()` returns all of them. A code is never reused.

    Attributes:
        code: Letter of the family and three digits.
        name: What is wrong, in kebab-case.
        severity: The severity of its findings, unless a problem sets another one.
        blame: Who has to change something, unless a problem says otherwise.
        since: The kproxy version that introduced it.
        triggers: The events that it checks.
        needs: The trackers whose state it reads.
        check: The generator function; its docstring is the rule's page.
        limits: The thresholds that users may set.
        complete_for: See `rule`.
    """

    code: str
    name: str
    severity: Severity
    blame: str | None
    since: str
    triggers: tuple[Trigger, ...]
    needs: tuple[type[Any], ...]
    check: Check
    limits: tuple[Limit, ...] = ()
    complete_for: int = 0

    @property
    def page(self) -> str:
        """The rule's page in Markdown, as `kproxy rules CODE` prints it."""
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
    limits: tuple[Limit, ...] = (),
    complete_for: int = 0,
    since: str,
    blame: str | None = None,
) -> Callable[[CheckT], CheckT]:
    """Register a check.

    Args:
        code: Family letter and three digits.
        severity: Severity of its findings. A problem may override it.
        events: Event classes that the rule checks. With `DeadlinePassed`, only deadlines set by
            `connection.set_deadline` under the rule's code, or under `deadline`.
        apis: Kafka's names of the APIs whose frames the rule checks. Empty means all.
        broken: Whether the rule also gets frames that do not decode or whose API or version is not in the schemas, and
            responses without a request.
        only: Frame flags. The rule gets only frames with at least one of them, unless it has subscribed
            (`connection.run.subscribe`).
        versions: Versions of `apis` whose frames the rule checks.
        also: Additional triggers.
        needs: Trackers whose state the rule reads. Only these are certain to run.
        limits: Thresholds that users may set; `connection.run.limit` returns their values.
        deadline: Name of the deadline that a tracker sets for the rule. Empty means `code`.
        complete_for: For a rule about something that a client did not do: its problems count only if kproxy read all of
            the client's frames in this many preceding seconds.
        since: The kproxy version that introduced the rule.
        blame: The responsible side: ``broker``, ``client``, ``network`` or ``proxy``. A problem may override it.

    Raises:
        ValueError: The code is already registered, or two limits have the same name.
    """
    trigger = Trigger(events, apis, broken, only, versions, deadline)

    def register(check: CheckT) -> CheckT:
        if code in _RULES:
            raise ValueError(f"rule {code} is registered twice")
        if len({limit.name for limit in limits}) < len(limits):
            raise ValueError(f"rule {code} has two limits of the same name")
        name = check.__name__.replace("_", "-")
        _RULES[code] = Rule(code, name, severity, blame, since, (trigger, *also), needs, check, limits, complete_for)
        return check

    return register


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, ordered by code."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(_RULES[code] for code in sorted(_RULES))


@functools.cache
def trackers(*also: type[Any]) -> Trackers:
    """Return the trackers that the rules need, plus those in `also`, which the caller reads itself."""
    return Trackers((*chain.from_iterable(rule.needs for rule in rules()), Losses, *also))


#: The family of rules that are checked last, because they skip problems that other rules explain.
_LAST_FAMILY = "E"
#: The family of rules about what clients do over time.
_HABITS_FAMILY = "H"


@functools.cache
def _rules_in_check_order() -> list[Rule]:
    return sorted(rules(), key=lambda rule: rule.code.startswith(_LAST_FAMILY))


_dispatch: Dispatch[Rule] = Dispatch(lambda: ((rule, rule.triggers, rule.code) for rule in _rules_in_check_order()))


#: The maximum number of findings of one rule for one frame; further ones are counted (K009).
MAX_FINDINGS = 20

#: Events that are about one frame.
_EVENTS_OF_ONE_FRAME = (*FRAME_EVENTS, RecordsDecoded)

#: How many of a frame's steps each problem uses up, to locate it and to phrase it.
_STEPS_PER_PROBLEM = 50


def check(event: object, connection: ConnectionState) -> list[Finding]:
    """Check an event with all rules and return their findings, ordered by code, with family E last.

    Each root cause is reported once per run; `connection.repeated` counts the repeats, and `connection.repeats` has the
    repeats of the current frame. A rule that raises an exception yields a finding (K007), and so does a limit that
    stops the work for one frame (K009).
    """
    subscribers = _subscribers(event, connection)
    if not subscribers and not connection.failures:
        return []
    findings: list[Finding] = []
    limits: _Limits | None = None
    for subscriber in subscribers:
        try:
            for problem in subscriber.check(event, connection):
                if subscriber.complete_for and _may_have_missed_frames(subscriber, event, connection):
                    continue
                if limits is None:
                    limits = _Limits(event)
                connection.note_problem(subscriber.code, event.at)  # type: ignore[attr-defined]
                if not limits.allow(subscriber):
                    connection.repeated[subscriber.code, subscriber.name] += 1
                    continue
                severity = problem.severity or subscriber.severity
                first_place = _first_place(subscriber, problem, event, connection)
                if first_place is None:
                    limits.finding_counts[subscriber.code] += 1
                    findings.append(
                        Finding(subscriber.code, subscriber.name, severity, problem.blame or subscriber.blame, problem)
                    )
                else:
                    connection.repeated[subscriber.code, subscriber.name] += 1
                    _mark_repeat(Repeat(subscriber.code, severity.value, first_place), event, connection)
        except OutOfSteps:
            limits = limits or _Limits(event)
            limits.unfinished_codes.append(subscriber.code)
        except Exception as error:  # noqa: BLE001  # a bug in one rule must not stop the others
            connection.failures.append(Failure.of(f"checking rule {subscriber.code}", error))
    if limits is not None:
        findings += limits.findings(event, connection)
    if connection.failures and type(event) is not InspectionFailed:
        findings += failure_findings(event, connection)
    return findings


def _may_have_missed_frames(rule: Rule, event: Any, connection: ConnectionState) -> bool:
    """Return whether the client may have done, in missed frames, what the rule says it did not do."""
    return connection.run.state(Losses).has_losses_since(event.at - rule.complete_for * SECOND, connection)


class _Limits:
    """The limits on the findings of one event: the number for each rule, and the steps of the event's frame."""

    def __init__(self, event: Any) -> None:
        is_limit_event = isinstance(event, JudgingLimited)
        self.message: Message | None = None if is_limit_event else getattr(event, "message", None)
        self.finding_counts: Counter[str] = Counter()
        self.unfinished_codes: list[str] = []
        self._withheld: Counter[str] = Counter()

    def allow(self, rule: Rule) -> bool:
        """Return whether a rule may report one more finding.

        Raises:
            OutOfSteps: The frame's steps are used up.
        """
        if self.message is not None:
            self.message.spend(_STEPS_PER_PROBLEM)
        if self.finding_counts[rule.code] < MAX_FINDINGS:
            return True
        self._withheld[rule.code] += 1
        return False

    def findings(self, event: Any, connection: ConnectionState) -> list[Finding]:
        """Return the findings about the limits, and free the trees that the rules have shared."""
        message = self.message
        for frame_message in (message, getattr(getattr(event, "request", None), "message", None)):
            if frame_message is not None:
                frame_message.tree = None
        if message is None or not (self.unfinished_codes or self._withheld):
            return []
        return check(JudgingLimited(event.at, message, tuple(self.unfinished_codes), self._withheld), connection)


def _subscribers(event: object, connection: ConnectionState) -> tuple[Rule, ...]:
    """Return the rules that check an event. For an ordinary frame, its plan caches them."""
    flags, subscribed, plan = connection.flags, connection.run.subscribed, connection.plan
    if plan is None or flags != plan.flags or subscribed is not plan.subscribed or type(event) not in FRAME_EVENTS:
        return _dispatch(event, flags, subscribed)
    if plan.rules is None:
        plan.rules = _dispatch(event, flags, subscribed)
    return plan.rules


def failure_findings(event: Any, connection: ConnectionState) -> list[Finding]:
    """Return the findings (K007) for inspection steps that failed at this event, and clear `connection.failures`."""
    failures, connection.failures = connection.failures, []
    return [
        finding for failure in failures for finding in check(InspectionFailed(event.at, failure, event), connection)
    ]


def _first_place(rule: Rule, problem: Problem, event: Any, connection: ConnectionState) -> Place | None:
    """Return where the root cause of a problem was first reported; None if this is the first report."""
    cause = (rule.code, problem.once_per) if problem.once_per else _root_cause(rule, problem, event, connection)
    place = Place(connection.connection_id)
    if isinstance(event, _EVENTS_OF_ONE_FRAME):
        is_request = event.message.is_request if event.message is not None else False
        place = Place(connection.connection_id, is_request, event.offset)
    first_place = connection.run.record_first_place(cause, event.at, place)
    if first_place is None and connection.run.new_causes is not None:
        connection.run.new_causes.append(cause)
    return first_place


def _mark_repeat(repeat: Repeat, event: Any, connection: ConnectionState) -> None:
    """Count a repeat for the line of its frame. A problem of severity info is no fault and marks no frame."""
    if repeat.severity == Severity.INFO or not isinstance(event, _EVENTS_OF_ONE_FRAME):
        return
    if repeat in connection.repeats or len(connection.repeats) < MAX_REPEATS:
        connection.repeats[repeat] += 1


def _root_cause(rule: Rule, problem: Problem, event: Any, connection: ConnectionState) -> Hashable:
    """Return a key that is equal for problems with the same root cause.

    Reports over several servers and clients use another key, see `kproxy.outputs.findings.cause_of`.
    """
    message = getattr(event, "message", None)
    frame_kind = (message.api_key, message.version, message.is_request) if message is not None else type(event)
    location = location_of_cause(problem.path, problem.diagnosis.edit if problem.diagnosis else None)
    is_client = (problem.blame or rule.blame) == "client"
    client = (connection.client_id or connection.client_software) if is_client else None
    # a bug in kproxy does not belong to one server, nor does a habit of a client, which talks to several brokers
    belongs_to_server = not (
        isinstance(event, InspectionFailed) or (is_client and rule.code.startswith(_HABITS_FAMILY))
    )
    server = connection.server if belongs_to_server else None
    return rule.code, server, client, frame_kind, location and without_indexes(str(location)), problem.cause
