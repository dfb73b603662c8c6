"""Limits of the work for one frame: the findings of each rule, and the steps that all rules share."""

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


def request_with_tags(count: int) -> Message:
    """Return a request with that many unknown tags."""
    body = {"client_software_name": "x", "client_software_version": "1"}
    return read_request(request("ApiVersions", 3, body | {"_tags": [[100 + tag, b"x"] for tag in range(count)]}))


def check_message(message: Message, connection: ConnectionState | None = None) -> list[Finding]:
    connection = connection or ConnectionState(RunState(rules.trackers()))
    event = RequestReceived(0, 0, len(message.frame) - 4, message)
    connection.observe(event)
    return rules.check(event, connection)


def test_findings_of_a_rule_in_one_frame_are_limited_and_counted() -> None:
    connection = ConnectionState(RunState(rules.trackers()))
    findings = check_message(request_with_tags(MAX_FINDINGS + 7), connection)
    assert [finding.code for finding in findings].count("L014") == MAX_FINDINGS
    assert findings[-1].code == "K009"
    assert "7 more findings" in findings[-1].problem.message
    assert "7 of L014" in findings[-1].problem.message
    assert connection.repeated["L014", "unknown-tag"] == 7


def test_findings_up_to_the_maximum_number_are_all_kept() -> None:
    assert "K009" not in [finding.code for finding in check_message(request_with_tags(MAX_FINDINGS))]


def test_rules_that_run_out_of_steps_are_named() -> None:
    message = request_with_tags(3)
    message.steps_left = 70  # for the tree and one problem
    [unknown_tag, limited] = [finding for finding in check_message(message) if finding.code in ("L014", "K009")]
    assert unknown_tag.code == "L014"
    assert "L014 did not finish" in limited.problem.message
    assert limited.severity == "warning"


def test_each_frame_has_its_own_steps() -> None:
    connection = ConnectionState(RunState(rules.trackers()))
    exhausted = request_with_tags(3)
    exhausted.steps_left = 0
    check_message(exhausted, connection)
    assert "L014" in [finding.code for finding in check_message(request_with_tags(3), connection)]


def test_tree_is_shared_and_then_freed() -> None:
    message = request_with_tags(3)
    steps_before = message.steps_left
    first = locate(message, "_tags", "tag 101")
    steps_after = message.steps_left
    assert steps_after < steps_before
    assert locate(message, "_tags", "tag 102")["start"] > first["start"]
    assert message.steps_left == steps_after  # found in the same tree
    check_message(message)
    assert message.tree is None


def test_spending_too_many_steps_raises() -> None:
    message = request_with_tags(1)
    message.spend(message.steps_left)
    with pytest.raises(OutOfSteps):
        message.spend(1)
