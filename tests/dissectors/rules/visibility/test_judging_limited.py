"""Limits of the work for one frame: how many findings a rule has, and the steps that all rules share."""

from __future__ import annotations

import pytest

from dissectors import rules
from dissectors.connections.events import RequestReceived
from dissectors.findings import Finding
from dissectors.messages.locate import locate
from dissectors.messages.message import Message, OutOfSteps, read_request
from dissectors.rules import MAX_FINDINGS
from dissectors.trackers.state import ConnectionState, RunState
from tests.kproxy.frames import request


def tagged(count: int) -> Message:
    """A request with that many unknown tags."""
    body = {"client_software_name": "x", "client_software_version": "1"}
    return read_request(request("ApiVersions", 3, body | {"_tags": [[100 + tag, b"x"] for tag in range(count)]}))


def checked(message: Message, connection: ConnectionState | None = None) -> list[Finding]:
    connection = connection or ConnectionState(RunState(rules.trackers()))
    event = RequestReceived(0, 0, len(message.frame) - 4, message)
    connection.observe(event)
    return rules.check(event, connection)


def test_a_rule_has_no_more_than_some_findings_of_a_frame_and_the_rest_is_counted() -> None:
    connection = ConnectionState(RunState(rules.trackers()))
    findings = checked(tagged(MAX_FINDINGS + 7), connection)
    assert [finding.code for finding in findings].count("L014") == MAX_FINDINGS
    assert findings[-1].code == "K009"
    assert "7 more findings" in findings[-1].problem.message
    assert "7 of L014" in findings[-1].problem.message
    assert connection.repeated["L014", "unknown-tag"] == 7


def test_exactly_the_most_are_not_limited() -> None:
    assert "K009" not in [finding.code for finding in checked(tagged(MAX_FINDINGS))]


def test_rules_that_ran_out_of_steps_are_named() -> None:
    message = tagged(3)
    message.steps_left = 70  # for the tree and one problem
    [unknown, limited] = [finding for finding in checked(message) if finding.code in ("L014", "K009")]
    assert unknown.code == "L014"
    assert "L014 did not finish" in limited.problem.message
    assert limited.severity == "warning"


def test_another_frame_has_steps_of_its_own() -> None:
    connection = ConnectionState(RunState(rules.trackers()))
    spent = tagged(3)
    spent.steps_left = 0
    checked(spent, connection)
    assert "L014" in [finding.code for finding in checked(tagged(3), connection)]


def test_the_tree_is_shared_and_freed() -> None:
    message = tagged(3)
    before = message.steps_left
    first = locate(message, "_tags", "tag 101")
    after = message.steps_left
    assert after < before
    assert locate(message, "_tags", "tag 102")["start"] > first["start"]
    assert message.steps_left == after  # found in the same tree
    checked(message)
    assert message.tree is None


def test_spending_more_than_is_left_raises() -> None:
    message = tagged(1)
    message.spend(message.steps_left)
    with pytest.raises(OutOfSteps):
        message.spend(1)
