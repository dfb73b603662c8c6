"""Several consumers share the encodings of a line."""

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

COMMON_FIELDS: dict[str, Any] = {
    "v": 1, "ts": "2023-11-14T22:13:20.000000Z", "connection_id": "c-1", "client": "c:1", "server": "s:1"
}  # fmt: skip
FINDING = FindingEntry("L001", "leftover", "error", "1 byte is left")
EXCERPT = replace(FINDING, excerpt=ExcerptEntry(0, "00"))
SUMMARY = RequestLine(size=4, offset=0, acks=-1, group_id="g", **COMMON_FIELDS)
RECORD = {"value": {"format": "json", "data": "\x9b{}"}}

#: Lines, each with its summary.
LINES: list[tuple[Line, Line]] = [
    (CloseLine(**COMMON_FIELDS), CloseLine(**COMMON_FIELDS)),
    (SUMMARY, SUMMARY),
    (replace(SUMMARY, findings=[FINDING]), replace(SUMMARY, findings=[FINDING])),
    (replace(SUMMARY, findings=[FINDING, EXCERPT]), replace(SUMMARY, findings=[FINDING, FINDING])),
    (replace(SUMMARY, body=RECORD), SUMMARY),
    (replace(SUMMARY, body={}, frame="QQ=="), SUMMARY),
    (ResponseLine(size=4, offset=0, body=RECORD, **COMMON_FIELDS), ResponseLine(size=4, offset=0, **COMMON_FIELDS)),
]


def without_frame(line: Line) -> Line:
    return line if isinstance(line, CloseLine) else replace(line, frame=None)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Collect all encodings, and check that no line is encoded twice in the same way."""
    encodings: list[bytes] = []

    def encode(line: Line) -> bytes:
        encodings.append(encode_line(line))
        return encodings[-1]

    monkeypatch.setattr(shared_line, "encode_line", encode)
    yield encodings
    assert len(set(encodings)) == len(encodings)


@pytest.mark.parametrize("order", [list(Detail), [*Detail][::-1]])
@pytest.mark.parametrize(("line", "summary"), LINES)
def test_line_is_encoded_once_at_each_detail(
    line: Line, summary: Line, order: list[Detail], encoded: list[bytes]
) -> None:
    original = encode_line(line)
    shared = SharedLine(line)
    assert encoded == []
    encodings = {detail: [shared.encoded(detail), shared.encoded(detail)][0] for detail in order}
    assert encodings == {
        Detail.SUMMARY: encode_line(summary),
        Detail.FULL: encode_line(without_frame(line)),
        Detail.RAW: encode_line(line),
    }
    assert shared.line is line
    assert encode_line(line) == original


@pytest.mark.parametrize(("line", "_summary"), LINES)
def test_received_line_can_be_encoded_in_a_different_process(line: Line, _summary: Line, encoded: list[bytes]) -> None:
    shared = SharedLine(line)
    expected = {detail: shared.encoded(detail) for detail in (Detail.SUMMARY, Detail.RAW)}
    encoded.clear()
    received: SharedLine = pickle.loads(pickle.dumps(shared))
    assert received.is_received
    assert not shared.is_received
    assert (received.content, received.frame, received.in_group) == (shared.content, shared.frame, shared.in_group)
    assert {detail: received.encoded(detail) for detail in expected} == expected
    assert encoded == []
    assert received.line == parse_line(encode_line(line))
    assert received.encoded(Detail.FULL) == encode_line(without_frame(line))  # the other process has not encoded it


def test_received_summary_can_be_read_as_a_line(encoded: list[bytes]) -> None:
    received = SharedLine(None, encode_line(SUMMARY))
    assert [received.encoded(detail) for detail in Detail] == [encode_line(SUMMARY)] * 3
    assert received.line == SUMMARY
    assert encoded == []


@pytest.mark.parametrize("payloads", [False, True])
@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("body", [None, {"name": "x"}, RECORD])
def test_viewers_receive_frames_and_decoded_records_on_request(
    payloads: bool, frames: bool, body: dict[str, Any] | None
) -> None:
    shared = SharedLine(replace(SUMMARY, body=body, frame="QQ=="))
    viewer_line = json.loads(shared.for_viewer(payloads=payloads, frames=frames))
    assert viewer_line.pop("frame", None) == ("QQ==" if frames else None)
    assert viewer_line.pop("body", None) == (RECORD if payloads and body is RECORD else None)
    assert viewer_line == json.loads(encode_line(SUMMARY))
