"""What a tree that was cut off does not have, may be a secret."""

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


def test_bytes_behind_a_cut_are_withheld() -> None:
    message = read_request(FRAME)
    tree = walk_message(message, most_nodes=50)
    spans = redact_tree(message, tree.nodes)
    at = FRAME.index(SECRET)
    assert any(start <= at and at + len(SECRET) <= end for start, end in spans)


def test_explain_shows_no_secret_behind_the_fields_that_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    explained = explain(FRAME)
    assert explained.rows[-1].path == NOT_SHOWN
    assert SECRET not in explained.frame
    assert explained.error is None


def test_a_frame_without_secrets_is_shown_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    frame = request("Metadata", 9, {"topics": [{"name": f"topic-{number}"} for number in range(100)]})
    explained = explain(frame)
    assert explained.frame == frame
    assert explained.rows[-1].end == len(frame)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))), st.integers(0, 60), st.integers(1, 9))
def test_spans_overlap_as_their_bytes_do(spans: list[tuple[int, int]], start: int, size: int) -> None:
    covered = {byte for first, last in spans for byte in range(first, last)}
    assert SpanSet(spans).overlap(start, start + size) == (not covered.isdisjoint(range(start, start + size)))
