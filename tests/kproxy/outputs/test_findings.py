"""Findings as people and programs get them: bytes with carets, edits in words, the order."""

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
        made: dict[str, Any] = {"kind": self.kind, "field": self.field, "detail": self.detail}
        return made | ({"then": self.then.as_json()} if self.then else {})


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


def found(diagnosis: Diagnosis | None = None, **problem: Any) -> Finding:
    made = Problem("throttle_time_ms is last; it should be first", diagnosis=diagnosis, **problem)  # type: ignore[arg-type]
    return Finding("L003", "field-misplaced", Severity.ERROR, "broker", made)


def rows(finding: FindingEntry, *where: str) -> list[str]:
    return ["".join(text for text, _ in row).rstrip() for row in full_rows(finding, where)]


def test_it_reads_like_a_compilers_message() -> None:
    frame = bytes(range(0x30, 0x30 + 36))
    diagnosis = Diagnosis(MOVED, 0.97, rivals=(Rival(DOUBLED, 0.02),))
    entry = finding_entry(
        found(diagnosis, start=14, end=18, path="throttle_time_ms", hint="write it first", expected="0", got="66"),
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
    """Row starts and what stands below them."""
    entry = finding_entry(found(start=start, end=end), bytes(size))
    shown = [row for row in rows(entry) if " | " in row or row.endswith("|")][1:]
    return [(int(row.split()[0]), below[14:]) for row, below in itertools.pairwise(shown) if "^" in below]


@pytest.mark.parametrize(
    ("size", "start", "end", "expected"),
    [
        (20, 0, 1, [(0, "^^")]),
        (20, 7, 9, [(0, " " * 21 + "^^^^^^")]),  # over the gap in the middle
        (20, 18, 18, [(16, " " * 6 + "^^")]),  # nothing stands there: one caret, where it should
        (20, 20, 20, [(16, " " * 12 + "^^")]),  # behind the last byte
        (32, 32, 32, [(16, " " * 49 + "^^")]),
        (100, 50, 52, [(48, " " * 6 + "^^^^^")]),
        (0, 0, 0, []),
    ],
)
def test_carets_stand_below_exactly_the_span(size: int, start: int, end: int, expected: list[tuple[int, str]]) -> None:
    assert carets(size, start, end) == expected


def test_a_long_span_is_cut_and_says_so() -> None:
    text = rows(finding_entry(found(start=20, end=1000), bytes(2000)))
    assert sum("^" in row for row in text) == 3
    assert text[-1].strip() == "| and 936 more bytes"


@pytest.mark.parametrize("size", [1, 15, 16, 17, 33, 1000])
def test_an_excerpt_has_the_span_or_its_beginning_and_is_bounded(size: int) -> None:
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


def test_json_has_every_key_and_those_of_a_diagnosis_only_with_one() -> None:
    assert finding_as_json(finding_entry(found())) == {
        "code": "L003", "name": "field-misplaced", "severity": "error", "blame": "broker",
        "message": "throttle_time_ms is last; it should be first", "path": None, "span": None, "hint": None,
    }  # fmt: skip
    made = finding_as_json(
        finding_entry(found(Diagnosis(DOUBLED, 0.5, (MOVED,), (Rival(MOVED, 0.25),)), start=1, end=2))
    )
    moved = {"kind": "field_moved", "field": "throttle_time_ms", "detail": {"from": 0, "to": 6}}
    assert made["span"] == [1, 2]
    assert made["edit"] == {
        "kind": "int_width", "field": "*", "detail": {"written": "int64"},
        "then": {"kind": "header_version", "field": "header", "detail": {"written": 0}},
    }  # fmt: skip
    assert (made["confidence"], made["also"], made["rivals"]) == (0.5, [moved], [moved | {"confidence": 0.25}])


def test_the_best_comes_first() -> None:
    info = FindingEntry("L014", "a", "info", "m", confidence=1.0)
    seen, sure, unsure = (
        FindingEntry(f"L{number}", "b", "error", "m", confidence=confidence)
        for number, confidence in enumerate((None, 0.9, 0.4))
    )
    assert best_first([info, seen, unsure, sure]) == [sure, unsure, seen, info]


def test_an_edit_of_a_later_kproxy_has_a_sentence_too() -> None:
    assert sentence(EditEntry("field_sung", "a", then=EditEntry("x", "b"))) == "field_sung of a, and x of b"


def test_what_comes_off_the_wire_cannot_move_the_cursor() -> None:
    assert "\x1b" not in "".join(rows(FindingEntry("L001", "a", "error", "\x1b[2J", path="\x1b", hint="\x1b")))


def _cause(path: str | None, edit: EditEntry | None) -> bytes:
    return cause_key(FindingEntry("L002", "n", "error", "m", path=path, edit=edit), "Fetch", 4, "response")


def test_a_cause_is_that_of_all_elements_of_an_array() -> None:
    assert _cause("topics[0].name", None) == _cause("topics[7].name", None) != _cause("topics[0].id", None)
    first, second, other = (
        EditEntry("field_missing", f"topics[{each}", {"where": 1}) for each in ("0].a", "1].a", "0].b")
    )
    assert _cause("x", first) == _cause("y", second) != _cause("x", other)


def test_a_cause_is_that_of_frames_that_are_cut_off_at_the_same_field() -> None:
    by_one, by_two = (EditEntry("truncated", "*", {"bytes": number}) for number in (1, 2))
    assert _cause("name", by_one) == _cause("name", by_two) != _cause("id", by_one)


def test_the_key_of_a_cause_stays_the_same_for_code_scanning() -> None:
    edit = EditEntry("field_missing", "a", {"where": 1}, 0.9, EditEntry("int_width", "b", {"written": "int8"}))
    key = b'["L002","error","Fetch",4,"response",["field_missing","a",{"where":1},'
    assert _cause("x", edit) == key + b'{"kind":"int_width","field":"b","detail":{"written":"int8"}}]]'
    assert _cause(None, None) == b'["L002","error","Fetch",4,"response",null]'
