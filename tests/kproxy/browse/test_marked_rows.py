"""Rows are marked if a frame repeats a finding or if a request waits for its response."""

from __future__ import annotations

from kproxy.browse.rows.columns import problems
from kproxy.browse.rows.index import SEVERITIES
from kproxy.trace.lines import FORMAT, FindingLine, RepeatedFinding
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sessions import BEGAN, SECOND, finding, request, response, session_of

WARNING, ERROR = SEVERITIES.index("warning"), SEVERITIES.index("error")


def test_repeated_finding_is_marked_like_the_first() -> None:
    first, second = request(1), request(2)
    repeat = RepeatedFinding("L003", "error", offset=first.offset)
    session = session_of([
        first, response(first, findings=[finding("error", "L003")]),
        second, response(second, repeats=[repeat]),
    ])  # fmt: skip
    assert list(session.index.severity) == [ERROR, ERROR]
    exchange = session.exchange(1)
    assert exchange is not None
    assert problems(exchange, "error") == [("L003 again", "error")]


def test_waiting_request_is_marked_by_its_finding() -> None:
    request_line = request(1)
    finding_line = FindingLine(
        v=FORMAT, ts=timestamp(BEGAN + 6 * SECOND), connection_id=request_line.connection_id,
        code="C020", name="it-waits",
        severity="warning", message="it waits", direction="request", offset=request_line.offset,
    )  # fmt: skip
    session = session_of([request_line, finding_line])
    assert list(session.index.severity) == [WARNING, WARNING]
    exchange = session.exchange(0)
    assert exchange is not None
    assert problems(exchange, "warning") == [("no response", "warning")]
