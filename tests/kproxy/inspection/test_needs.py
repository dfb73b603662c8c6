"""An inspection that skips what no output reads: the columns that are read are those of a whole inspection."""

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
def test_what_is_left_out_changes_nothing_else(path: Path) -> None:
    whole = [line for line in lines_of(path, EVERYTHING) if not isinstance(line, FindingLine | StallLine)]
    for needs, columns in (
        (Needs(False, False, False), UNDECODED),
        (Needs(False, False), HEADS),
        (Needs(False, True), HEADS | FACTS),
    ):
        read = ColumnReader(columns)
        assert [read(line) for line in lines_of(path, needs)] == [read(line) for line in whole], needs


@pytest.mark.parametrize("needs", [Needs(False, False, False), Needs(False, False), EVERYTHING])
def test_waiting_requests_have_lines_whatever_is_left_out(needs: Needs) -> None:
    inspector = Inspector("c", needs=needs)
    inspector.open(0, "a:1", "b:9092", at=1)
    [line] = inspector.data(0, Direction.REQUEST, request("Metadata", 1, {"topics": None}), at=2)
    [now] = inspector.open_now()
    assert [*now.waiting] == [line]


def test_without_findings_no_rule_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "captures/metadata-v1-throttle-first.pcap.gz"
    assert any(getattr(line, "findings", None) for line in lines_of(path, EVERYTHING))
    monkeypatch.setattr(rules, "rules", lambda: pytest.fail("the rules are loaded"))
    assert lines_of(path, Needs(findings=False))


def test_without_decoding_only_logins_addresses_and_acks_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: set[tuple[str, bool]] = set()
    for reader in (connection.read_request, connection.read_response):

        def read(*frame: Any, reader: Callable[..., Message] = reader) -> Message:
            message = reader(*frame)
            decoded.add((message.api, message.is_request))
            return message

        monkeypatch.setattr(connection, reader.__name__, read)
    [path] = (ROOT / "tests/data/pcap").rglob("sasl-plain-kafka-python-4.3.1.pcap.gz")
    lines_of(path, Needs(findings=False, facts=False, decoding=False))
    whole = {
        (api, is_request) for api in ("Metadata", "SaslHandshake", "SaslAuthenticate") for is_request in (True, False)
    }
    assert decoded == whole | {("Produce", True)}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.removesuffix(".pcap.gz"))
def test_a_column_has_the_value_of_the_whole_line(path: Path) -> None:
    read = ColumnReader(COLUMNS)
    assert [read(line) for line in lines_of(path, EVERYTHING)] == [
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
def test_what_columns_need(columns: set[str], needs: Needs) -> None:
    assert needs_of(columns) == needs


@pytest.mark.parametrize(
    ("text", "findings"),
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
def test_a_filter_needs_findings_only_if_it_names_them(text: str, findings: bool) -> None:
    assert needs_of(parse(text).needed_columns).findings == findings


def test_a_response_without_a_group_has_none_even_if_its_request_has_an_empty_one() -> None:
    inspector = Inspector("c")
    inspector.open(0, "a:1", "b:9092", at=1)
    asked = {"group_id": "", "generation_id": 1, "member_id": "", "topics": []}
    inspector.data(0, Direction.REQUEST, request("OffsetCommit", 2, asked), at=2)
    [line, *_] = inspector.data(0, Direction.RESPONSE, response("OffsetCommit", 2, {"topics": []}), at=3)
    assert isinstance(line, ResponseLine)
    assert (line.group_id, line.generation_id) == (None, None)
