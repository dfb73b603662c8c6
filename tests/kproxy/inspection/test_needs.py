"""Skipping the columns that nobody reads leaves the other columns of an inspection unchanged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dissectors import rules
from dissectors.connections import connection
from dissectors.connections.events import Direction
from dissectors.messages.message import Message
from kproxy.capture import open_capture
from kproxy.capture.lines import CaptureLines
from kproxy.filters import parse
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.needs import EVERYTHING, Needs, needs_of
from kproxy.trace.encoding import ColumnReader, as_mapping
from kproxy.trace.lines import KINDS, FindingLine, Line, ResponseLine, StallLine
from tests.kproxy.frames import request, response

ROOT = Path(__file__).parents[3]
CAPTURES = sorted([*(ROOT / "captures").glob("*.pcap.gz"), *(ROOT / "tests/data/pcap").glob("*.pcap.gz")])
COLUMNS = {"kind", *(name for kind in KINDS.values() for name in kind.__struct_fields__)}
UNDECODED = {name for name in COLUMNS if needs_of({name}) == Needs(findings=False, facts=False, decoding=False)}
HEADS = UNDECODED | {name for name in COLUMNS if needs_of({name}) == Needs(findings=False, facts=False)}
FACTS = {name for name in COLUMNS if needs_of({name}) == Needs(findings=False, facts=True)}


def lines_of(path: Path, needs: Needs) -> list[Line]:
    with open_capture(path) as capture:
        return list(CaptureLines(capture, Inspector("c", needs=needs)))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.removesuffix(".pcap.gz"))
def test_skipped_work_does_not_change_other_columns(path: Path) -> None:
    full_lines = [line for line in lines_of(path, EVERYTHING) if not isinstance(line, FindingLine | StallLine)]
    for needs, columns in (
        (Needs(False, False, False), UNDECODED),
        (Needs(False, False), HEADS),
        (Needs(False, True), HEADS | FACTS),
    ):
        read_columns = ColumnReader(columns)
        assert [read_columns(line) for line in lines_of(path, needs)] == [read_columns(line) for line in full_lines], (
            needs
        )


@pytest.mark.parametrize("needs", [Needs(False, False, False), Needs(False, False), EVERYTHING])
def test_waiting_requests_keep_their_lines_whatever_columns_are_needed(needs: Needs) -> None:
    inspector = Inspector("c", needs=needs)
    inspector.open(0, "a:1", "b:9092", at=1)
    [line] = inspector.receive_data(0, Direction.REQUEST, request("Metadata", 1, {"topics": None}), at=2)
    [connection] = inspector.open_connections()
    assert [*connection.waiting] == [line]


def test_rules_are_not_loaded_if_findings_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "captures/metadata-v1-throttle-first.pcap.gz"
    assert any(getattr(line, "findings", None) for line in lines_of(path, EVERYTHING))
    monkeypatch.setattr(rules, "rules", lambda: pytest.fail("the rules are loaded"))
    assert lines_of(path, Needs(findings=False))


def test_only_logins_addresses_and_acks_are_decoded_if_nothing_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: set[tuple[str, bool]] = set()
    for reader in (connection.read_request, connection.read_response):

        def record_and_read(*frame: Any, reader: Callable[..., Message] = reader) -> Message:
            message = reader(*frame)
            decoded.add((message.api, message.is_request))
            return message

        monkeypatch.setattr(connection, reader.__name__, record_and_read)
    [path] = (ROOT / "tests/data/pcap").rglob("sasl-plain-kafka-python-4.3.1.pcap.gz")
    lines_of(path, Needs(findings=False, facts=False, decoding=False))
    fully_decoded = {
        (api, is_request) for api in ("Metadata", "SaslHandshake", "SaslAuthenticate") for is_request in (True, False)
    }
    assert decoded == fully_decoded | {("Produce", True)}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.removesuffix(".pcap.gz"))
def test_column_reader_returns_the_values_of_the_line(path: Path) -> None:
    read_columns = ColumnReader(COLUMNS)
    assert [read_columns(line) for line in lines_of(path, EVERYTHING)] == [
        {name: value for name, value in as_mapping(line).items() if value is not None}
        for line in lines_of(path, EVERYTHING)
    ]


@pytest.mark.parametrize(
    ("columns", "needs"),
    [
        ({"ts", "api", "latency_us", "principal"}, Needs(False, False, False)),
        ({"ts", "client_id"}, Needs(False, False)),
        ({"ts", "topics"}, Needs(False, True)),
        ({"group_id"}, Needs(False, True)),
        ({"findings"}, Needs(True, True)),
        ({"code"}, Needs(True, True)),
        ({"stall"}, Needs(True, True)),
        ({"kind", "ts"}, Needs(True, True)),
    ],
)
def test_needs_are_derived_from_the_columns(columns: set[str], needs: Needs) -> None:
    assert needs_of(columns) == needs


@pytest.mark.parametrize(
    ("filter_text", "needs_findings"),
    [
        ("api=Fetch", False),
        ("error", False),
        ("kind=response and latency>1ms", False),
        ("kind in (open, close)", False),
        ("kind=finding", True),
        ("kind!=request", True),
        ("kind~o", True),
        ("not (kind=open or kind=stall)", True),
        ("severity>=warning", True),
        ("finding=L005", True),
    ],
)
def test_filter_needs_findings_only_if_it_can_match_them(filter_text: str, needs_findings: bool) -> None:
    assert needs_of(parse(filter_text).needed_columns).findings == needs_findings


def test_response_has_no_group_if_the_request_has_an_empty_group_id() -> None:
    inspector = Inspector("c")
    inspector.open(0, "a:1", "b:9092", at=1)
    commit = {"group_id": "", "generation_id": 1, "member_id": "", "topics": []}
    inspector.receive_data(0, Direction.REQUEST, request("OffsetCommit", 2, commit), at=2)
    [line, *_] = inspector.receive_data(0, Direction.RESPONSE, response("OffsetCommit", 2, {"topics": []}), at=3)
    assert isinstance(line, ResponseLine)
    assert (line.group_id, line.generation_id) == (None, None)
