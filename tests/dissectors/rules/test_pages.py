"""Every rule's page: its parts are there, its example fires it, and right frames stay silent."""

import re

import pytest

from dissectors import rules
from dissectors.connection import Connection
from dissectors.conversation import Conversation
from dissectors.events import Direction
from dissectors.findings import Finding
from dissectors.hexdump import unhex
from tests.kproxy.frames import request, response

_EXAMPLE = re.compile(r"```hex (request|response)\n(.*?)```", re.DOTALL)
_DIRECTIONS = {"request": Direction.REQUEST, "response": Direction.RESPONSE}


def findings(*frames: tuple[Direction, bytes]) -> list[Finding]:
    connection, conversation = Connection(), Conversation()
    found: list[Finding] = []
    events = [event for way, data in frames for event in connection.receive_data(way, data, at=0)]
    for event in [*events, *connection.close(at=1)]:
        conversation.hear(event)
        found += rules.check(event, conversation)
    return found


def example(page: str) -> list[tuple[Direction, bytes]]:
    return [(_DIRECTIONS[kind], unhex(text)) for kind, text in _EXAMPLE.findall(page)]


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_the_example_on_the_page_fires_the_rule(rule: rules.Rule) -> None:
    assert rule.code in [finding.code for finding in findings(*example(rule.page))]


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_the_page_has_its_parts(rule: rules.Rule) -> None:
    for part in ("## Why it matters", "## Usual cause", "## Example", "## Sources", "https://"):
        assert part in rule.page
    assert re.fullmatch(r"[LVCRSXMK]\d{3}", rule.code)
    assert rule.page.startswith(("Checks that", "Says "))


def test_codes_and_names_are_unique() -> None:
    known = rules.rules()
    assert len({rule.code for rule in known}) == len({rule.name for rule in known}) == len(known)


def test_right_frames_are_silent() -> None:
    ask = request("Metadata", 9, {"topics": [{"name": "a"}]}, correlation_id=1)
    again = request("ApiVersions", 3, {"client_software_name": "x", "client_software_version": "1"}, correlation_id=2)
    assert (
        findings(
            (Direction.REQUEST, ask + again),
            (Direction.RESPONSE, response("Metadata", 9, {}, correlation_id=1)),
            (Direction.RESPONSE, response("ApiVersions", 3, {"throttle_time_ms": 0}, correlation_id=2)),
        )
        == []
    )


def test_a_fallback_answer_to_a_version_too_new_is_right() -> None:
    # KIP-511: error 35, written as version 0
    ask = request("ApiVersions", 4, {"client_software_name": "x", "client_software_version": "1"})
    answer = response("ApiVersions", 0, {"error_code": 35})
    assert findings((Direction.REQUEST, ask), (Direction.RESPONSE, answer)) == []


def test_a_finding_points_at_its_bytes() -> None:
    frame = unhex("00 00 00 06  00 00 00 07  00 00")
    [finding] = findings((Direction.RESPONSE, frame))
    assert finding.code == "C001"
    assert frame[finding.problem.start : finding.problem.end] == unhex("00 00 00 07")


def test_registering_a_code_twice_is_an_error() -> None:
    [known, *_] = rules.rules()
    with pytest.raises(ValueError, match=f"rule {known.code} is registered twice"):
        rules.rule(known.code, severity=known.severity, events=(), since="0.1")(known.check)
