"""Findings are shown as text and JSON: bytes with carets, edits as sentences, the worst finding first."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from dissectors.findings import Finding, Problem, Severity
from kproxy.inspection.event_lines import ROW_BYTES, excerpt, finding_entry
from kproxy.outputs.findings import full_rows, sentence
from kproxy.trace.lines import EditEntry, FindingEntry
from kproxy.verdict.as_json import finding_as_json
from kproxy.verdict.ranking import best_first, cause_key


@dataclass(frozen=True)
class Edit:
    kind: str
    field: str
    detail: dict[str, Any] = field(default_factory=dict)
    then: "Edit | None" = None

    def as_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"kind": self.kind, "field": self.field, "detail": self.detail}
        return entry | ({"then": self.then.as_json()} if self.then else {})


@dataclass(frozen=True)
class Rival:
    edit: Edit
    confidence: float


@dataclass(frozen=True)
class Diagnosis:
    edit: Edit
    confidence: float
    also: tuple[Edit, ...] = ()
    rivals: tuple[Rival, ...] = ()


MOVED = Edit("field_moved", "throttle_time_ms", {"from": 0, "to": 6})
DOUBLED = Edit("int_width", "*", {"written": "int64"}, then=Edit("header_version", "header", {"written": 0}))


def make_finding(diagnosis: Diagnosis | None = None, **problem: Any) -> Finding:
    problem_value = Problem("throttle_time_ms is last; it should be first", diagnosis=diagnosis, **problem)  # type: ignore[arg-type]
    return Finding("L003", "field-misplaced", Severity.ERROR, "broker", problem_value)


def rows(finding: FindingEntry, *context: str) -> list[str]:
    return ["".join(text for text, _ in row).rstrip() for row in full_rows(finding, context)]


def test_text_resembles_a_compiler_message() -> None:
    frame = bytes(range(0x30, 0x30 + 36))
    diagnosis = Diagnosis(MOVED, 0.97, rivals=(Rival(DOUBLED, 0.02),))
    entry = finding_entry(
        make_finding(
            diagnosis, start=14, end=18, path="throttle_time_ms", hint="write it first", expected="0", got="66"
        ),
        frame,
    )
    assert rows(entry, "a.pcap: connection 1", "JoinGroup v2 response") == [
        "error: L003 field-misplaced: throttle_time_ms is last; it should be first",
        "  --> a.pcap: connection 1",
        "      JoinGroup v2 response",
        "      throttle_time_ms, bytes 14..18 of the frame (4 bytes)",
        "            |",
        "     0 0000 | 30 31 32 33 34 35 36 37  38 39 3a 3b 3c 3d 3e 3f | 0123456789:;<=>?",
        "            |                                            ^^^^^",
        "    16 0010 | 40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f | @ABCDEFGHIJKLMNO",
        "            | ^^^^^",
        "    32 0020 | 50 51 52 53                                      | PQRS",
        "            = expected: 0",
        "            = got: 66",
        f"            = edit: {sentence(entry.edit)} (97% sure)",
        f"            = or: {sentence(entry.rivals[0])} (2% sure)",
        "            = hint: write it first",
    ]


def carets(size: int, start: int, end: int) -> list[tuple[int, str]]:
    """Return the start offset of each marked row, and the carets in the row below it."""
    entry = finding_entry(make_finding(start=start, end=end), bytes(size))
    data_rows = [row for row in rows(entry) if " | " in row or row.endswith("|")][1:]
    return [
        (int(row.split()[0]), caret_row[14:]) for row, caret_row in itertools.pairwise(data_rows) if "^" in caret_row
    ]


@pytest.mark.parametrize(
    ("size", "start", "end", "expected"),
    [
        (20, 0, 1, [(0, "^^")]),
        (20, 7, 9, [(0, " " * 21 + "^^^^^^")]),  # a span across the gap in the middle of the row
        (20, 18, 18, [(16, " " * 6 + "^^")]),  # an empty span has one caret where the bytes should be
        (20, 20, 20, [(16, " " * 12 + "^^")]),  # a span after the last byte
        (32, 32, 32, [(16, " " * 49 + "^^")]),
        (100, 50, 52, [(48, " " * 6 + "^^^^^")]),
        (0, 0, 0, []),
    ],
)
def test_carets_mark_exactly_the_span(size: int, start: int, end: int, expected: list[tuple[int, str]]) -> None:
    assert carets(size, start, end) == expected


def test_long_span_is_truncated_with_a_note() -> None:
    text_rows = rows(finding_entry(make_finding(start=20, end=1000), bytes(2000)))
    assert sum("^" in row for row in text_rows) == 3
    assert text_rows[-1].strip() == "| and 936 more bytes"


@pytest.mark.parametrize("size", [1, 15, 16, 17, 33, 1000])
def test_excerpt_contains_the_start_of_the_span_and_has_a_limited_size(size: int) -> None:
    frame = bytes(number % 256 for number in range(size))
    for start in range(size + 1):
        for end in (start, start + 1, start + 40, size):
            entry = excerpt(frame, start, max(start, min(end, size)))
            assert entry is not None
            data = bytes.fromhex(entry.hex)
            assert entry.start % ROW_BYTES == 0
            assert len(data) <= 3 * ROW_BYTES
            assert data == frame[entry.start : entry.start + len(data)]
            assert entry.start <= min(start, size - 1) < entry.start + len(data)


def test_json_has_diagnosis_keys_only_with_a_diagnosis() -> None:
    assert finding_as_json(finding_entry(make_finding())) == {
        "code": "L003", "name": "field-misplaced", "severity": "error", "blame": "broker",
        "message": "throttle_time_ms is last; it should be first", "path": None, "span": None, "hint": None,
    }  # fmt: skip
    as_json = finding_as_json(
        finding_entry(make_finding(Diagnosis(DOUBLED, 0.5, (MOVED,), (Rival(MOVED, 0.25),)), start=1, end=2))
    )
    moved_json = {"kind": "field_moved", "field": "throttle_time_ms", "detail": {"from": 0, "to": 6}}
    assert as_json["span"] == [1, 2]
    assert as_json["edit"] == {
        "kind": "int_width", "field": "*", "detail": {"written": "int64"},
        "then": {"kind": "header_version", "field": "header", "detail": {"written": 0}},
    }  # fmt: skip
    assert (as_json["confidence"], as_json["also"], as_json["rivals"]) == (
        0.5,
        [moved_json],
        [moved_json | {"confidence": 0.25}],
    )


def test_worst_and_most_confident_findings_come_first() -> None:
    info = FindingEntry("L014", "a", "info", "m", confidence=1.0)
    without_confidence, sure, unsure = (
        FindingEntry(f"L{number}", "b", "error", "m", confidence=confidence)
        for number, confidence in enumerate((None, 0.9, 0.4))
    )
    assert best_first([info, without_confidence, unsure, sure]) == [sure, unsure, without_confidence, info]


def test_unknown_edit_also_has_a_sentence() -> None:
    assert sentence(EditEntry("field_sung", "a", then=EditEntry("x", "b"))) == "field_sung of a, and x of b"


def test_text_from_the_network_is_escaped() -> None:
    assert "\x1b" not in "".join(rows(FindingEntry("L001", "a", "error", "\x1b[2J", path="\x1b", hint="\x1b")))


def _cause_key(path: str | None, edit: EditEntry | None) -> bytes:
    return cause_key(FindingEntry("L002", "n", "error", "m", path=path, edit=edit), "Fetch", 4, "response")


def test_elements_of_an_array_share_a_cause() -> None:
    assert _cause_key("topics[0].name", None) == _cause_key("topics[7].name", None) != _cause_key("topics[0].id", None)
    first, second, other_field = (
        EditEntry("field_missing", f"topics[{path}", {"where": 1}) for path in ("0].a", "1].a", "0].b")
    )
    assert _cause_key("x", first) == _cause_key("y", second) != _cause_key("x", other_field)


def test_frames_truncated_at_the_same_field_share_a_cause() -> None:
    truncated_by_one, truncated_by_two = (EditEntry("truncated", "*", {"bytes": number}) for number in (1, 2))
    assert (
        _cause_key("name", truncated_by_one)
        == _cause_key("name", truncated_by_two)
        != _cause_key("id", truncated_by_one)
    )


def test_key_of_a_cause_is_stable_for_code_scanning() -> None:
    edit = EditEntry("field_missing", "a", {"where": 1}, 0.9, EditEntry("int_width", "b", {"written": "int8"}))
    key = b'["L002","error","Fetch",4,"response",["field_missing","a",{"where":1},'
    assert _cause_key("x", edit) == key + b'{"kind":"int_width","field":"b","detail":{"written":"int8"}}]]'
    assert _cause_key(None, None) == b'["L002","error","Fetch",4,"response",null]'
