"""E002: a retriable error that does not go away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import DeadlinePassed, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.locate import locate
from dissectors.refusals import Nature
from dissectors.rules import rule
from dissectors.rules.helpers.refused import (
    MAX_RESULTS,
    Pattern,
    ReturnedError,
    Target,
    broker_text,
    client_key,
    client_name,
    refusals,
    results,
    targets_text,
    values_text,
)
from dissectors.rules.refusals.owners import grace_period, has_owner_reported
from dissectors.trackers.elections import SETTLING_TIME, Elections
from dissectors.trackers.losses import Losses
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

IN_A_ROW = Limit("refusals", 3, "refusals", "a client gets so many in a row for a partition, group or topic", 2)
#: The minimum number of refusals if every request of the API is refused, each for a different target.
_MIN_TOTAL = 5
#: Two refusals are enough if each took this long (ns).
_SLOW_RESPONSE = 5 * SECOND
#: After this time (ns) without a refusal, counting restarts. Incremental fetches do not report healthy partitions.
_MAX_GAP = 30 * SECOND
_MAX_FETCH_GAP = 5 * SECOND
#: The next attempt may come this much later (ns) and still count.
_GRACE = SECOND
LASTING = Limit("lasting", 15, "s", "they are an error if they last so long, before that a warning")
#: The rule observes the successes of an API until all streaks have ended, or no request was refused for this long (ns).
_OBSERVED = 60 * SECOND

_REFUSED = FrameFlags.REFUSED.value

_MAX_CLIENTS = 10_000
_MAX_TARGETS = 1_000
_MAX_ERRORS = 16
_MAX_PATTERNS = 8


@dataclass(slots=True)
class _TargetRefusals:
    """Consecutive refusals of one target, with the times (ns) of the first and the last."""

    first: int
    last: int
    times: int = 0


@dataclass(slots=True)
class _Streak:
    """Refusals of one client, API and error since all targets last succeeded.

    `refused` of `requests` responses had the error. `severity` is the severity of the last report.
    """

    first: int
    last: int
    refused: int = 0
    requests: int = 0
    severity: Severity | None = None
    targets: BoundedDict[Target, _TargetRefusals] = field(default_factory=lambda: BoundedDict(_MAX_TARGETS))
    patterns: set[Pattern] = field(default_factory=set)

    @property
    def is_total(self) -> bool:
        """Whether all requests since the first were refused, and there were several."""
        return self.refused == self.requests >= _MIN_TOTAL


_Client = tuple[str, str | None]


class _PendingProblem(NamedTuple):
    """The problem of a streak, which is reported unless the streak ends first."""

    api: str
    client: _Client
    streak: _Streak
    refusal: ReturnedError
    problem: Problem


class _Streaks:
    """The current streaks by API, client and error, and when an API was last refused."""

    def __init__(self) -> None:
        self.by_api: dict[str, BoundedDict[_Client, dict[int, _Streak]]] = {}
        self.refused_at: dict[str, int] = {}


@rule(
    "E002",
    severity=Severity.WARNING,
    events=(ResponseReceived, DeadlinePassed),
    only=FrameFlags.REFUSED,
    needs=(Elections, Losses),
    limits=(IN_A_ROW, LASTING),
    since="0.1",
)
def refused_repeatedly(event: ResponseReceived | DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that an error after which clients retry goes away.

    ## Why it matters
    Clients retry these errors silently, for minutes or forever: often this is why an application hangs. The errors that
    a broker restart, an election, the first use of a group or a new topic cause end within seconds; this one lasted
    longer and was repeated at least three times, without a success in between. It is an error if it lasts 15 s, or if
    every request of the client was refused. If other errors show that leaders or coordinators are being elected, it is
    reported after 15 s.

    ## Usual cause
    The message says what the error means for this API, who usually has to change something, and what the broker says
    in `error_message`.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    +1s
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    +1s
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    ```

    ## Look-alikes
    A success in between:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    +1s
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    +1s
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 7}]}]}
    +1s
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 19, "base_offset": -1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-580%3A+Exponential+Backoff+for+Kafka+Clients
    """
    streaks = connection.run.state(_Streaks)
    if isinstance(event, DeadlinePassed):
        yield from _pending_problem(event, connection, streaks)
        return
    message = event.message
    if message is None or event.request is None or message.diagnosis is not None:
        return
    if not (connection.flags & _REFUSED and (returned_errors := _retriable_errors(event))):
        _note_success(event, connection, streaks, {})
        _stop_observing(message.api, event.at, connection, streaks)
        return
    connection.run.subscribe("E002", api=message.api)
    streaks.refused_at[message.api] = event.at
    by_error: dict[int, list[ReturnedError]] = {}
    for refusal in returned_errors:
        by_error.setdefault(refusal.code, []).append(refusal)
    _note_success(event, connection, streaks, by_error)
    client = client_key(connection)
    key = client, message.api
    errors = streaks.by_api.setdefault(message.api, BoundedDict(_MAX_CLIENTS)).touch(client, dict)
    for code, refused in by_error.items():
        streak = errors.get(code)
        if streak is None or event.request.at - streak.last > _max_gap(message.api):
            if streak is None and len(errors) >= _MAX_ERRORS:
                continue
            streak = errors[code] = _Streak(event.at, event.at, requests=1)
        lasting_errors, due = _count_refusal(streak, refused, event, connection)
        if not lasting_errors or has_owner_reported(lasting_errors[0], connection, since=streak.first):
            continue
        severity = _severity(streak, lasting_errors[0], event.at, connection)
        problem = _problem(event, streak, lasting_errors, severity, connection)
        if due <= event.at:
            connection.meet_deadline("E002", (key, code))
            streak.severity = severity
            yield problem
        else:
            pending = _PendingProblem(message.api, client, streak, lasting_errors[0], problem)
            connection.set_deadline("E002", (key, code), by=due + _GRACE, about=pending)


def is_refused(connection: ConnectionState) -> bool:
    """Whether any API has refused requests of a connection's client without a success since."""
    client = client_key(connection)
    return any(client in clients for clients in connection.run.state(_Streaks).by_api.values())


def _pending_problem(event: DeadlinePassed, connection: ConnectionState, streaks: _Streaks) -> Iterator[Problem]:
    """Yield the problem of a streak that lasts long enough while the client waits for its next attempt."""
    pending: _PendingProblem = event.about
    streak, refusal = pending.streak, pending.refusal
    errors = streaks.by_api[pending.api].get(pending.client, {})
    is_current = errors.get(refusal.code) is streak and refusal.target in streak.targets
    if connection.run.state(Losses).has_losses_since(streak.last, connection):
        return  # a success may be among the frames that were not read
    settled_at = streak.first + SETTLING_TIME + _GRACE
    if event.at < settled_at and connection.run.state(Elections).may_cause(refusal.code, streak.first):
        connection.set_deadline("E002", ((pending.client, pending.api), refusal.code), by=settled_at, about=pending)
        return
    if is_current and not has_owner_reported(refusal, connection, since=streak.first):
        streak.severity = pending.problem.severity
        yield replace(pending.problem, start=None, end=None, path=None)


def _retriable_errors(event: ResponseReceived) -> list[ReturnedError]:
    return [refusal for refusal in refusals(event) if refusal.judgement.nature is not Nature.FINAL]


def _note_success(
    event: ResponseReceived,
    connection: ConnectionState,
    streaks: _Streaks,
    by_error: Mapping[int, Sequence[ReturnedError]],
) -> None:
    """Count the response in the client's streaks, and remove the targets that succeeded from them."""
    assert event.message is not None
    clients = streaks.by_api.get(event.message.api)
    client = client_key(connection)
    if clients is None or (errors := clients.get(client)) is None:
        return
    for code, streak in list(errors.items()):
        streak.requests += 1
        for pattern in streak.patterns:
            target_results = list(results(event, pattern))
            for target, result in target_results:
                if result == 0:
                    streak.targets.pop(target, None)
            if len(target_results) == MAX_RESULTS:  # targets beyond the limit may have succeeded
                refused = {error.target for error in by_error.get(code, ())}
                for target in [target for target in streak.targets if target not in refused]:
                    del streak.targets[target]
        if not streak.targets:
            del errors[code]
    if not errors:
        del clients[client]


def _stop_observing(api: str, at: int, connection: ConnectionState, streaks: _Streaks) -> None:
    """Stop observing the successes of an API once it has no streak or no recent refusal."""
    if api in streaks.refused_at and (not streaks.by_api.get(api) or at - streaks.refused_at[api] > _OBSERVED):
        del streaks.refused_at[api]
        connection.run.unsubscribe("E002", api=api)


def _count_refusal(
    streak: _Streak, refused: list[ReturnedError], event: ResponseReceived, connection: ConnectionState
) -> tuple[list[ReturnedError], int]:
    """Count a response in a streak; return the refusals to report, and when to report them (ns).

    That is now, or later unless the streak ends first: a client that backs off may make no attempt at that time.
    """
    assert event.request is not None
    assert event.message is not None
    api, in_a_row = event.message.api, int(connection.run.limit(IN_A_ROW))
    streak.refused += 1
    streak.last = event.at
    grace_ns = int(grace_period(refused[0], api) * SECOND)
    if connection.run.state(Elections).may_cause(refused[0].code, streak.first):
        grace_ns = max(grace_ns, SETTLING_TIME)
    lasting_errors = []
    for error in refused:
        if len(streak.patterns) < _MAX_PATTERNS:
            streak.patterns.add(error.pattern)
        target = streak.targets.touch(error.target, lambda: _TargetRefusals(event.at, event.at))
        if event.request.at - target.last > _max_gap(api):
            target.first, target.times = event.at, 0
        target.last = event.at
        target.times += 1
        threshold = 2 if event.at - event.request.at >= _SLOW_RESPONSE else in_a_row
        is_total = streak.is_total and streak.requests >= in_a_row
        first = streak.first if is_total else target.first
        if is_total or target.times >= threshold:
            lasting_errors.append((first + grace_ns, error))
    due_errors = [error for due, error in lasting_errors if due <= event.at]
    due = event.at if due_errors or not lasting_errors else min(due for due, _ in lasting_errors)
    return due_errors or [error for _, error in lasting_errors], due


def _max_gap(api: str) -> int:
    return _MAX_FETCH_GAP if api in ("Fetch", "ShareFetch") else _MAX_GAP


def _severity(streak: _Streak, refusal: ReturnedError, at: int, connection: ConnectionState) -> Severity:
    is_transient = refusal.judgement.nature is Nature.TRANSIENT
    if is_transient and at - streak.first >= connection.run.limit(LASTING) * SECOND:
        return Severity.ERROR
    if streak.severity is not None:
        return streak.severity
    return Severity.ERROR if is_transient and streak.is_total else Severity.WARNING


def _problem(
    event: ResponseReceived,
    streak: _Streak,
    lasting_errors: list[ReturnedError],
    severity: Severity,
    connection: ConnectionState,
) -> Problem:
    assert event.message is not None
    first = lasting_errors[0]
    api, judgement = event.message.api, first.judgement
    return Problem(
        f"{streak.refused} of {streak.requests} {api} requests of {client_name(connection)} were refused with "
        f"{first.name} in {(event.at - streak.first) / 1e9:.1f} s{targets_text(list(streak.targets), connection)}"
        f"{values_text(event, first)}: {judgement.meaning}{broker_text(event, first)}",
        **locate(event.message, *first.path),
        hint=judgement.change,
        blame=judgement.blame,
        severity=severity,
        once_per=(client_key(connection), api, first.code, severity),
        request=None if event.request is None else ConcernedRequest.of(event.request),
    )
