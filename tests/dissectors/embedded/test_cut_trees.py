"""The part of a frame that a truncated tree does not show may hold a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.embedded.redaction import SpanSet, redact_tree
from dissectors.messages.message import read_request, walk_message
from kproxy.inspection import explain as module
from kproxy.inspection.explain import NOT_SHOWN, explain
from tests.kproxy.frames import request

SECRET = b"hunter2-hunter2"
FRAME = request(
    "AlterUserScramCredentials",
    0,
    {"deletions": [{"name": f"user-{number}"} for number in range(100)],
     "upsertions": [{"name": "alice", "salt": b"s", "salted_password": SECRET}]},
)  # fmt: skip


def test_secret_after_the_last_shown_node_is_redacted() -> None:
    message = read_request(FRAME)
    tree = walk_message(message, most_nodes=50)
    spans = redact_tree(message, tree.nodes)
    secret_start = FRAME.index(SECRET)
    assert any(start <= secret_start and secret_start + len(SECRET) <= end for start, end in spans)


def test_explain_shows_no_secret_after_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    explanation = explain(FRAME)
    assert explanation.rows[-1].path == NOT_SHOWN
    assert SECRET not in explanation.frame
    assert explanation.error is None


def test_frame_without_secrets_is_shown_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    frame = request("Metadata", 9, {"topics": [{"name": f"topic-{number}"} for number in range(100)]})
    explanation = explain(frame)
    assert explanation.frame == frame
    assert explanation.rows[-1].end == len(frame)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))), st.integers(0, 60), st.integers(1, 9))
def test_spans_overlap_if_they_share_bytes(spans: list[tuple[int, int]], start: int, size: int) -> None:
    covered_bytes = {byte for first, last in spans for byte in range(first, last)}
    assert SpanSet(spans).overlap(start, start + size) == (not covered_bytes.isdisjoint(range(start, start + size)))
