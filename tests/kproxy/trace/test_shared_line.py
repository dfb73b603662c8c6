"""Encodings of a line that several consumers share."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from kproxy.trace import shared_line
from kproxy.trace.encoding import encode_line, parse_line
from kproxy.trace.lines import CloseLine, Detail, ExcerptEntry, FindingEntry, Line, RequestLine, ResponseLine
from kproxy.trace.shared_line import SharedLine

ENDS: dict[str, Any] = {
    "v": 1, "ts": "2023-11-14T22:13:20.000000Z", "connection_id": "c-1", "client": "c:1", "server": "s:1"
}  # fmt: skip
FINDING = FindingEntry("L001", "leftover", "error", "1 byte is left")
EXCERPT = replace(FINDING, excerpt=ExcerptEntry(0, "00"))
SUMMARY = RequestLine(size=4, offset=0, acks=-1, group_id="g", **ENDS)
RECORD = {"value": {"format": "json", "data": "\x9b{}"}}

#: A line, and what a summary of it has.
LINES: list[tuple[Line, Line]] = [
    (CloseLine(**ENDS), CloseLine(**ENDS)),
    (SUMMARY, SUMMARY),
    (replace(SUMMARY, findings=[FINDING]), replace(SUMMARY, findings=[FINDING])),
    (replace(SUMMARY, findings=[FINDING, EXCERPT]), replace(SUMMARY, findings=[FINDING, FINDING])),
    (replace(SUMMARY, body=RECORD), SUMMARY),
    (replace(SUMMARY, body={}, frame="QQ=="), SUMMARY),
    (ResponseLine(size=4, offset=0, body=RECORD, **ENDS), ResponseLine(size=4, offset=0, **ENDS)),
]


def full(line: Line) -> Line:
    return line if isinstance(line, CloseLine) else replace(line, frame=None)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """All that was encoded; nothing twice."""
    made: list[bytes] = []

    def encode(line: Line) -> bytes:
        made.append(encode_line(line))
        return made[-1]

    monkeypatch.setattr(shared_line, "encode_line", encode)
    yield made
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("order", [list(Detail), [*Detail][::-1]])
@pytest.mark.parametrize(("line", "summary"), LINES)
def test_it_is_encoded_once_at_each_detail(
    line: Line, summary: Line, order: list[Detail], encoded: list[bytes]
) -> None:
    before = encode_line(line)
    shared = SharedLine(line)
    assert encoded == []
    found = {detail: [shared.encoded(detail), shared.encoded(detail)][0] for detail in order}
    assert found == {
        Detail.SUMMARY: encode_line(summary),
        Detail.FULL: encode_line(full(line)),
        Detail.RAW: encode_line(line),
    }
    assert shared.line is line
    assert encode_line(line) == before


@pytest.mark.parametrize(("line", "_summary"), LINES)
def test_another_process_can_encode_it(line: Line, _summary: Line, encoded: list[bytes]) -> None:
    shared = SharedLine(line)
    wanted = {detail: shared.encoded(detail) for detail in (Detail.SUMMARY, Detail.RAW)}
    encoded.clear()
    received: SharedLine = pickle.loads(pickle.dumps(shared))
    assert received.is_received
    assert not shared.is_received
    assert (received.content, received.frame, received.in_group) == (shared.content, shared.frame, shared.in_group)
    assert {detail: received.encoded(detail) for detail in wanted} == wanted
    assert encoded == []
    assert received.line == parse_line(encode_line(line))
    assert received.encoded(Detail.FULL) == encode_line(full(line))  # which the other process has not made


def test_a_received_summary_is_a_line(encoded: list[bytes]) -> None:
    received = SharedLine(None, encode_line(SUMMARY))
    assert [received.encoded(detail) for detail in Detail] == [encode_line(SUMMARY)] * 3
    assert received.line == SUMMARY
    assert encoded == []


@pytest.mark.parametrize("payloads", [False, True])
@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("body", [None, {"name": "x"}, RECORD])
def test_viewers_get_frames_and_decoded_records_if_they_want_them(
    payloads: bool, frames: bool, body: dict[str, Any] | None
) -> None:
    shared = SharedLine(replace(SUMMARY, body=body, frame="QQ=="))
    shown = json.loads(shared.for_viewer(payloads=payloads, frames=frames))
    assert shown.pop("frame", None) == ("QQ==" if frames else None)
    assert shown.pop("body", None) == (RECORD if payloads and body is RECORD else None)
    assert shown == json.loads(encode_line(SUMMARY))
