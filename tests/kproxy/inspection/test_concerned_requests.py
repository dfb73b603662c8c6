"""A finding without a frame has the facts of the request that it is about."""

from __future__ import annotations

import pytest

from dissectors import rules
from kproxy.trace.lines import FindingLine, RequestLine
from tests.dissectors.rules.test_pages import page_stories
from tests.kproxy.stories import told

#: Rules whose findings are about one request, although they are found when time passes or a connection ends.
CODES = [
    "C004", "C006", "C007", "C013", "C015", "C016", "C020", "C021", "C022", "E005", "E006", "G001",
    "G002", "G003", "G004", "G005", "G006", "G007", "G009", "G013", "S013", "S014", "V007", "V005", "V019", "X006",
]  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_a_finding_without_a_frame_has_the_request_that_it_is_about(code: str) -> None:
    [rule] = [rule for rule in rules.rules() if rule.code == code]
    found = 0
    for story in page_stories(rule.page, "Example"):
        lines = told(story)
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
                found += 1
    assert found
