"""Rules and trackers declare which trackers they need, and run with these alone."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

from dissectors import rules, trackers
from dissectors.connections.events import DeadlinePassed
from dissectors.trackers import Tracker, Trackers, in_order
from dissectors.trackers.answered_apis import AnsweredApis
from dissectors.trackers.authentication import Authentication, Listeners
from dissectors.trackers.delegation_tokens import DelegationTokens
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.metadata_only_visits import MetadataOnlyVisits
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.state import ConnectionState, RunState
from tests.dissectors.rules.tracker_needs import keeper, read_by

MODULES = [
    importlib.import_module(f"{trackers.__name__}.{module.name}") for module in pkgutil.iter_modules(trackers.__path__)
]
TRACKERS = [
    tracker
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and (tracker := keeper(kind)) is not None and tracker.kind is kind
    if kind.__module__ == module.__name__
]


def marked_by(only: int) -> set[type]:
    return {tracker.kind for tracker in TRACKERS if tracker.flags & only}


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_a_rule_declares_the_trackers_that_it_reads_and_no_others(rule: rules.Rule) -> None:
    marked = set().union(*(marked_by(trigger.only) for trigger in rule.triggers))
    assert set(rule.needs) == read_by(inspect.unwrap(rule.check)) | marked  # type: ignore[arg-type]


@pytest.mark.parametrize("tracker", TRACKERS, ids=lambda tracker: tracker.kind.__name__)
def test_a_tracker_declares_the_others_that_it_reads(tracker: Tracker) -> None:
    assert set(tracker.needs) == read_by(tracker.kind) - {tracker.kind, *tracker.keeps}


def test_every_tracker_is_needed() -> None:
    assert {each.kind for each in rules.trackers().order} == {tracker.kind for tracker in TRACKERS}


def test_no_tracker_mentions_a_rule() -> None:
    names = {rule.name for rule in rules.rules() if "-" in rule.name}  # `throttled` is a word, too
    codes = {rule.code for rule in rules.rules()} | names
    for module in MODULES:
        words = set(re.findall(r"[\w-]+", inspect.getsource(module)))
        assert not words & codes, module.__name__


def test_trackers_run_after_those_that_they_need() -> None:
    order = [each.kind for each in rules.trackers().order]
    for tracker in rules.trackers().order:
        needed = [each.kind for kind in tracker.needs if (each := keeper(kind)) is not None]
        assert all(order.index(each) < order.index(tracker.kind) for each in needed)
    assert [tracker.kind for tracker in in_order([Listeners])] == [DelegationTokens, Authentication, Listeners]


def test_only_what_is_needed_runs() -> None:
    kinds = {tracker.kind for tracker in in_order([AnsweredApis])}
    assert kinds == {InFlight, RebalanceTimeouts}
    assert MetadataOnlyVisits not in kinds


def test_state_that_nobody_declared_is_refused_and_private_state_is_not() -> None:
    connection = ConnectionState(RunState(Trackers([RebalanceTimeouts])))
    assert isinstance(connection.run.state(RebalanceTimeouts), RebalanceTimeouts)
    assert connection.state(list) == []
    for state in (connection.state, connection.run.state):
        with pytest.raises(LookupError, match="InFlight is read, but no rule declares that it needs it"):
            state(InFlight)


def test_every_deadline_of_a_tracker_has_a_rule() -> None:
    names = [
        trigger.deadline
        for rule in rules.rules()
        for trigger in rule.triggers
        if DeadlinePassed in trigger.events and trigger.deadline
    ]
    assert len(names) == len(set(names)) == 8
