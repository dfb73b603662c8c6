"""Findings that no frame carries have the columns of the request that they concern."""

from __future__ import annotations

import pytest

from dissectors import rules
from kproxy.trace.lines import FindingLine, RequestLine
from tests.dissectors.rules.test_pages import page_stories
from tests.kproxy.stories import lines_of_story

#: Rules whose findings concern one request, although they are reported as time passes or when a connection ends.
CODES = [
    "C004", "C006", "C007", "C013", "C015", "C016", "C020", "C021", "C022", "E005", "E006", "G001",
    "G002", "G003", "G004", "G005", "G006", "G007", "G009", "G013", "S013", "S014", "V007", "V005", "V019", "X006",
]  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_finding_without_a_frame_names_its_request(code: str) -> None:
    [rule] = [rule for rule in rules.rules() if rule.code == code]
    checked = 0
    for story in page_stories(rule.page, "Example"):
        lines = lines_of_story(story)
        requests = {
            (line.connection_id, line.offset): (line.api, line.api_version, line.correlation_id)
            for line in lines
            if isinstance(line, RequestLine)
        }
        for line in lines:
            if isinstance(line, FindingLine) and line.code == code:
                assert line.direction == "request"
                assert requests[line.connection_id, line.offset or 0] == (
                    line.api, line.api_version, line.correlation_id,
                )  # fmt: skip
                checked += 1
    assert checked
