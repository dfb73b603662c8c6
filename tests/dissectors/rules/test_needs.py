"""Rules and trackers declare the trackers that they need, and only these run."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

from dissectors import rules, trackers
from dissectors.connections.events import DeadlinePassed
from dissectors.trackers import Tracker, Trackers, trackers_in_order
from dissectors.trackers.answered_apis import AnsweredApis
from dissectors.trackers.authentication import Authentication, Listeners
from dissectors.trackers.delegation_tokens import DelegationTokens
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.metadata_only_visits import MetadataOnlyVisits
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.state import ConnectionState, RunState
from tests.dissectors.rules.tracker_needs import find_tracker, trackers_read_by

MODULES = [
    importlib.import_module(f"{trackers.__name__}.{module.name}") for module in pkgutil.iter_modules(trackers.__path__)
]
TRACKERS = [
    tracker
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and (tracker := find_tracker(kind)) is not None and tracker.kind is kind
    if kind.__module__ == module.__name__
]


def trackers_with_flags(flags: int) -> set[type]:
    return {tracker.kind for tracker in TRACKERS if tracker.flags & flags}


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_rule_declares_exactly_the_trackers_it_reads(rule: rules.Rule) -> None:
    flag_trackers = set().union(*(trackers_with_flags(trigger.only) for trigger in rule.triggers))
    assert set(rule.needs) == trackers_read_by(inspect.unwrap(rule.check)) | flag_trackers  # type: ignore[arg-type]


@pytest.mark.parametrize("tracker", TRACKERS, ids=lambda tracker: tracker.kind.__name__)
def test_tracker_declares_exactly_the_trackers_it_reads(tracker: Tracker) -> None:
    assert set(tracker.needs) == trackers_read_by(tracker.kind) - {tracker.kind, *tracker.keeps}


def test_every_tracker_is_needed() -> None:
    assert {needed_tracker.kind for needed_tracker in rules.trackers().order} == {tracker.kind for tracker in TRACKERS}


def test_trackers_do_not_mention_rules() -> None:
    names = {rule.name for rule in rules.rules() if "-" in rule.name}  # `throttled` is also an ordinary word
    codes = {rule.code for rule in rules.rules()} | names
    for module in MODULES:
        words = set(re.findall(r"[\w-]+", inspect.getsource(module)))
        assert not words & codes, module.__name__


def test_trackers_run_after_the_trackers_they_need() -> None:
    order = [tracker.kind for tracker in rules.trackers().order]
    for tracker in rules.trackers().order:
        needed_kinds = [
            needed_tracker.kind for kind in tracker.needs if (needed_tracker := find_tracker(kind)) is not None
        ]
        assert all(order.index(needed_kind) < order.index(tracker.kind) for needed_kind in needed_kinds)
    assert [tracker.kind for tracker in trackers_in_order([Listeners])] == [DelegationTokens, Authentication, Listeners]


def test_only_needed_trackers_run() -> None:
    kinds = {tracker.kind for tracker in trackers_in_order([AnsweredApis])}
    assert kinds == {InFlight, RebalanceTimeouts}
    assert MetadataOnlyVisits not in kinds


def test_undeclared_tracker_is_refused_and_private_state_is_not() -> None:
    connection = ConnectionState(RunState(Trackers([RebalanceTimeouts])))
    assert isinstance(connection.run.state(RebalanceTimeouts), RebalanceTimeouts)
    assert connection.state(list) == []
    for state in (connection.state, connection.run.state):
        with pytest.raises(LookupError, match="InFlight is read, but no rule declares that it needs it"):
            state(InFlight)


def test_every_tracker_deadline_has_one_rule() -> None:
    names = [
        trigger.deadline
        for rule in rules.rules()
        for trigger in rule.triggers
        if DeadlinePassed in trigger.events and trigger.deadline
    ]
    assert len(names) == len(set(names)) == 8
