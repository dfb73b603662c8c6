"""The page makes no requests, never turns text from the network into markup, and contains the lines of the trace."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dissectors import records
from kproxy.browse.fields.detail import build_frame_detail
from kproxy.browse.session import BrowseSession
from kproxy.filters.fields import FIELDS, Kind
from kproxy.html import contents
from kproxy.html.sides import side_json
from kproxy.trace.lines import Detail, ErrorEntry, FindingEntry, RequestLine, ResponseLine, TopicEntry
from tests.kproxy.browse import sessions
from tests.kproxy.browse.sides import request_line, response_line
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request, response
from tests.kproxy.html.pages import ParsedPage, page_of
from tests.kproxy.stories import lines_of_story
from tests.kproxy.transactions.transaction_story import STORY

_BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"
_STORY = Path(__file__).parents[3] / "captures" / "fetch-v11-records-with-int32-lengths.pcap.gz"


@pytest.fixture(scope="module")
def bug() -> ParsedPage:
    return page_of(lines_of(_BUG, detail=Detail.RAW), names=[str(_BUG)])[0]


def test_page_makes_no_requests(bug: ParsedPage) -> None:
    [policy] = [attrs["content"] or "" for tag, attrs in bug.elements if "http-equiv" in attrs and tag == "meta"]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed.keys() == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    [style], [script] = bug.texts["style"], [text for text in bug.texts["script"] if not text.startswith("{")]
    for text, source in ((style, allowed["style-src"]), (script, allowed["script-src"])):
        assert source == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    for tag, attrs in bug.elements:
        assert not attrs.keys() & {"src", "href", "action", "style", "srcset", "data", "ping"}, tag
        assert not any(name.startswith("on") for name in attrs), tag
    assert not re.search(r"https?://|@import|url\(|//[a-z]+\.", bug.text)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|\bfetch\(|XMLHttp|WebSocket|EventSource", script
    )


def test_page_contains_the_lines_of_the_trace(kproxy: Run) -> None:
    page = ParsedPage(kproxy("dissect", "--html", _BUG).stdout)
    trace_lines = [
        json.loads(line) for line in kproxy("dissect", "--json", "--detail", "full", _BUG).stdout.splitlines()
    ]
    for line in trace_lines:
        line.pop("body", None)
    assert sorted(map(json.dumps, page.lines)) == sorted(map(json.dumps, trace_lines))


def test_page_contains_a_summary(bug: ParsedPage) -> None:
    data = bug.data
    assert data["files"] == [_BUG.name]
    assert (data["connections"], data["exchanges"], data["frames"], data["refused"], data["unanswered"]) == (
        2,
        7,
        14,
        2,
        0,
    )
    assert (data["from"], data["to"]) == ("2026-11-21T02:19:54.864670Z", "2026-11-21T02:20:01.830112Z")
    [cause] = data["causes"]
    assert (cause["code"], cause["severity"], cause["seen"]) == ("L005", "error", "2 times on 2 connections")
    row = bug.unpacked("rows")[cause["row"]]
    assert row[:7] == [
        cause["row"], 1795227595759515, f"{_BUG.name}-0", "producer-1", "Metadata", "v2", "t[0]",
    ]  # fmt: skip
    assert row[10:] == [[["L005 field-from-newer-version", "error"]], "error", "", "127.0.0.1:21934", 0]
    assert data["notes"] == []


def test_tables_show_the_overviews() -> None:
    page, _ = page_of(lines_of_story(STORY))
    table = page.data["tables"]["transactions"]
    rows = {row["key"]: row for row in table["rows"]}
    assert list(rows) == ["stuck", "(producer 4)", "pay", "audit"]  # transactions that hold a partition come first
    assert [span[2] for span in rows["pay"]["values"][-1]] == ["committed", "committed", "fenced"]
    assert all(0 <= span[0] <= span[0] + span[1] <= 1000 for row in table["rows"] for span in row["values"][-1])
    assert page.unpacked("rows")[rows["pay"]["values"][-1][0][4]][4] == "AddPartitionsToTxn"
    assert rows["stuck"]["values"][-2] == "holds t[0] for 25.0 s; its producer left 25.0 s ago"
    assert [label.partition(" ")[0] for label, _ in rows["pay"]["marks"]] == ["fenced", "committed", "committed"]
    [*_, (_, first_row)] = rows["pay"]["marks"]
    assert page.unpacked("rows")[first_row][4] == "AddPartitionsToTxn"
    assert rows["pay"]["filter"] == 'transaction="pay"'
    for name, table_data in page.data["tables"].items():
        assert all(len(row["values"]) == len(table_data["columns"]) for row in table_data["rows"]), name
    hostile, _ = page_of(lines_of_story(STORY.replace('"pay"', '"<b>pay</b>"')))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in page.elements]
    assert page_of(exchange("t"))[0].data["tables"]["transactions"]["rows"] == []


def test_response_is_shown_with_its_fields_bytes_and_marks(bug: ParsedPage) -> None:
    row = bug.data["causes"][0]["row"]
    [request_entry, response_entry] = [
        line for line in lines_of(_BUG, detail=Detail.RAW) if getattr(line, "api", "") == "Metadata"
    ][:2]
    assert isinstance(request_entry, RequestLine)
    assert isinstance(response_entry, ResponseLine)
    page_side, expected = bug.sides(row)[1], build_frame_detail(response_entry, request_entry)
    assert base64.b64decode(page_side["frame"]) == expected.frame
    assert page_side["deviation"] == expected.deviation
    [mark] = page_side["marks"]
    assert page_side["fields"][mark] == [1, "throttle_time_ms", "int32", "0", "", 8, 12]
    assert [field[1] for field in page_side["fields"] if field[0] == 0] == ["size", "header", "body"]
    [[finding]] = [finding for finding in bug.unpacked("lines")[row]["findings"] if finding]
    assert finding["span"] == [8, 12]
    assert ["edit", "throttle_time_ms from version 3 is also written (over 99% sure)"] in finding["notes"]


def test_repeated_response_error_is_explained_once() -> None:
    names = [
        ("topics[0].error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topics[1].error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    body = {"topics": [{"error_code": 3}, {"error_code": 3}]}
    line = response_line(None, 3, 9, body=body, errors=[ErrorEntry(*name) for name in names])
    side = side_json(build_frame_detail(line))
    [[name, field, nature, meaning, change]] = side["errors"]
    assert (name, nature) == ("UNKNOWN_TOPIC_OR_PARTITION", "transient")
    assert side["fields"][field][1:4] == ["error_code", "int16", "3"]
    assert meaning == "the topic does not exist"
    assert change.startswith("create the topic")


def exchange(topic: str, number: int = 1) -> list[RequestLine | ResponseLine]:
    """Return a Produce request and its response."""
    data = records.encode([{"records": [{"key": topic.encode("utf-8", "surrogateescape"), "value": b'{"a": 1}'}]}])
    request_frame = request("Produce", 7,
                            {"transactional_id": None, "acks": 1, "timeout_ms": 1,
                            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]},
                            correlation_id=number)  # fmt: skip
    response_frame = response("Produce", 7,
                              {"responses": [{"name": topic,
                              "partition_responses": [{"index": 0, "error_code": 0, "base_offset": 5}]}],
                              "throttle_time_ms": 0}, correlation_id=number)  # fmt: skip
    columns: dict[str, Any] = {"correlation_id": number, "topics": [TopicEntry(topic, partitions=[0])]}
    assigned = columns | {"topics": [TopicEntry(topic, partitions=[0], offsets=[5])]}
    return [
        request_line(request_frame, client_id=topic, **columns),
        response_line(response_frame, 0, 7, request_ts="2026-03-01T00:00:00.000000Z", latency_us=7, **assigned),
    ]


@pytest.mark.parametrize(
    "topic",
    [
        "</script><img src=x onerror=alert(1)>",
        "<!--<script>",
        "\udcff\udc80",
        "\u202eevil\u0000\x1b[31m\u2028",
        "{{data}}",
        "&lt;&amp;",
    ],
)
def test_text_from_the_network_does_not_become_markup(topic: str) -> None:
    entry = FindingEntry("L001", "trailing-bytes", "error", topic, path=topic, span=(8, 12), hint=topic, expected=topic)
    request_entry, response_entry = exchange(topic)
    request_entry = msgspec.structs.replace(request_entry, findings=[entry], not_decoded=None, group_id=topic)
    name = topic.replace("/", "").encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    page, _ = page_of([request_entry, response_entry], names=[name])
    plain, _ = page_of(exchange("t"))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert page.data["causes"][0]["message"]
    [row] = page.unpacked("rows")
    assert all(text.isprintable() for text in (row[3], row[6]))
    [[[_, _, key, value, *_]]] = [record["rows"] for record in page.sides(0)[0]["records"]]
    assert value[:2] == ["json", '{\n  "a": 1\n}']
    assert key[0] in ("text", "hex")
    assert page.lines[0]["client_id"]
    [title] = page.texts["title"]
    assert title.startswith("kproxy: ")


def test_page_shows_decoded_records() -> None:
    page, _ = page_of(exchange("orders"))
    [record] = page.sides(0)[0]["records"]
    assert (record["topic"], record["partition"]) == ("orders", 0)
    [[offset, time, key, value, headers, field]] = record["rows"]
    assert (offset, time, headers) == ("5", None, [])  # the offset is that of the response
    assert (key[:2], value[:2]) == (["text", "orders"], ["json", '{\n  "a": 1\n}'])
    assert page.sides(0)[0]["fields"][field][1:3] == ["[0]", "record"]


def test_page_does_not_contain_secrets() -> None:
    frame = request("SaslAuthenticate", 1, {"auth_bytes": b"\0user\0hunter2"})
    page, _ = page_of([request_line(frame)])
    page_content = page.text + json.dumps([page.unpacked(name) for name in ("rows", "lines", "sides")])
    assert "hunter2" not in page_content
    assert b"hunter2" not in base64.b64decode(page.sides(0)[0]["frame"])
    assert "(redacted, 13 bytes)" in page_content


def test_lines_without_bytes_show_their_columns_and_body() -> None:
    request_entry, response_entry = exchange("orders")
    request_entry.frame, response_entry.frame, response_entry.body = None, None, {"throttle_time_ms": 4}
    page, _ = page_of([request_entry, response_entry])
    request_side, response_side = page.sides(0)
    assert "record with --detail raw" in request_side["missing"]
    assert ["topic", "", '"orders"'] in [field[1:4] for field in request_side["fields"]]
    assert [field[1] for field in response_side["fields"]] == ["body", "throttle_time_ms"]
    assert "frame" not in response_side


def test_events_are_rows_without_a_request_or_response(bug: ParsedPage) -> None:
    rows = bug.unpacked("rows")
    assert [row[12] for row in rows if row[12]] == ["open", "open", "close", "close"]
    assert all(bug.data["places"][number] == -1 for number, row in enumerate(rows) if row[12])


def test_filter_selects_whole_exchanges(bug: ParsedPage) -> None:
    page, _ = page_of(lines_of(_BUG, detail=Detail.RAW), chosen="error=UNSUPPORTED_VERSION")
    assert [row[4:6] for row in page.unpacked("rows")] == [["ApiVersions", "v4"]] * 2
    assert [line["kind"] for line in page.lines] == ["request", "response"] * 2
    assert page.data["filter"] == "error=UNSUPPORTED_VERSION"
    assert page.data["causes"] == []
    assert len(bug.unpacked("rows")) == 11


def test_large_frame_is_truncated() -> None:
    body = {"brokers": [], "topics": [{"name": f"t{number}", "partitions": []} for number in range(5_000)]}
    frame = response("Metadata", 1, body)
    page, _ = page_of([response_line(frame, 3, 1)])
    page_side = page.sides(0)[1]
    assert len(base64.b64decode(page_side["frame"])) == 32 << 10
    [more_field] = [field for field in page_side["fields"] if field[1] == "…"]
    assert (more_field[3], more_field[5] is not None, more_field[6]) == ("4,900 more", True, len(frame))


@pytest.mark.slow
def test_large_page_omits_fields_and_then_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(itertools.chain.from_iterable(exchange(f"topic-{number}", number) for number in range(700)))
    finding = FindingEntry("L001", "trailing-bytes", "error", "bytes follow")
    lines[-1].findings = [finding]
    full_page, output = page_of(lines)
    assert output.warnings == full_page.data["notes"] == []
    monkeypatch.setattr(contents, "MAX_SIZE", 40_000)
    page, output = page_of(lines)
    [note] = output.warnings
    assert re.fullmatch(
        r"this page has the fields and bytes of only \d+ of 700 exchanges, those with findings first: .*", note
    )
    assert page.data["places"][-1] == 0
    assert -1 in page.data["places"]
    assert len(page.text) < len(full_page.text)
    monkeypatch.setattr(contents, "MAX_SIZE", 4_000)
    page, output = page_of(lines)
    rows, fields = output.warnings
    assert re.match(r"this page has only the first \d+ of 700 rows", rows)
    assert "bytes of " in fields
    assert 0 < len(page.unpacked("rows")) < 700
    assert page.data["causes"][0]["row"] == -1
    assert page.data["exchanges"] == 700


@pytest.mark.parametrize("option", ["--json", "--findings", "--fields=ts", "--format=json"])
def test_html_cannot_be_combined_with_another_output_format(kproxy: Run, option: str) -> None:
    process = kproxy("dissect", "--html", option, _BUG)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == f"kproxy: use --html or {option.partition('=')[0]}, not both\n"


@pytest.mark.slow
def test_html_is_not_written_to_a_terminal() -> None:
    controller, terminal = os.openpty()
    try:
        command = [sys.executable, "-m", "kproxy", "dissect", "--html", _BUG]
        process = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(terminal)
        os.close(controller)
    assert process.returncode == 2
    assert process.stderr.decode().startswith("kproxy: --html writes HTML to standard output: redirect it")


def test_page_covers_several_files_and_omits_ignored_rules(kproxy: Run) -> None:
    process = kproxy("dissect", "--html", "--ignore", "L", _BUG, _STORY)
    page = ParsedPage(process.stdout)
    assert page.data["files"] == [_BUG.name, _STORY.name]
    assert not any(cause["code"].startswith("L") for cause in page.data["causes"])
    assert "L005" not in json.dumps(page.lines)
    assert kproxy("dissect", "--html", "--fail-on", "never", _BUG).returncode == 0
    assert kproxy("dissect", "--html", _BUG).returncode == 1


def test_warnings_about_the_input_do_not_name_its_directory(kproxy: Run, tmp_path: Path) -> None:
    truncated = tmp_path / "torn.pcap"
    truncated.write_bytes(gzip.decompress(_BUG.read_bytes())[:900])
    http_capture = _STORY.with_name("http-on-kafkas-port.pcap.gz")
    process = kproxy("dissect", "--html", truncated, http_capture)
    assert ParsedPage(process.stdout).data["notes"] == [
        "torn.pcap: the file ends inside packet 9, after 68 of 173 bytes; everything before that point was read",
        "http-on-kafkas-port.pcap.gz: no Kafka connection in 6 packets; other TCP connections: 1 HTTP",
    ]
    assert f"kproxy: {truncated}: the file ends inside packet 9" in process.stderr
    assert str(tmp_path) not in process.stdout


def test_page_without_lines_is_empty() -> None:
    page, output = page_of([])
    assert (page.data["rows"], page.data["exchanges"], output.warnings) == ([], 0, [])


def test_script_knows_every_field_of_the_filter_language(bug: ParsedPage) -> None:
    """A field reads the column of the same name unless it is in READS; tests/peers runs the script in a browser."""
    [script] = [text for text in bug.texts["script"] if "const READS = {" in text]
    reads_block = re.search(r"const READS = \{(.*?)\n\};", script, re.DOTALL)
    assert reads_block is not None
    read_fields = set(re.findall(r"(?:^  |, )(\w+): ", reads_block[1], re.MULTILINE))
    line_fields = [field for field in FIELDS if field.kind is not Kind.RECORD]  # records are read by filter_records.js
    assert {field.name for field in line_fields if field.many or field.columns != {field.name}} <= read_fields
    assert read_fields <= {field.name for field in FIELDS}
    by_name = {name: field for name, *field in bug.data["fields"]}
    assert by_name.keys() == {field.name for field in FIELDS}
    assert by_name["latency_us"] == [["latency"], "duration", False, 1, []]
    assert by_name["severity"][-1] == ["info", "warning", "error"]
    assert "NOT_LEADER_OR_FOLLOWER" in by_name["error"][-1]
    assert bug.data["units"]["size"]["KiB"] == 1024


def test_finding_in_a_successful_request_is_listed_last() -> None:
    successful, failed = (
        sessions.request(number, findings=[sessions.finding(code=code)]) for number, code in enumerate(("S001", "S002"))
    )
    error_response = sessions.response(failed, errors=[ErrorEntry("error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")])
    page, _ = page_of([successful, failed, sessions.response(successful), error_response])
    assert [cause["code"] for cause in page.data["causes"]] == ["S002", "S001"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    work = BrowseSession.work
    for terminal in (_Terminal(), io.StringIO()):
        more_turns = iter([True, True])
        monkeypatch.setattr(BrowseSession, "work", lambda *args, more=more_turns: work(*args) or next(more, False))
        monkeypatch.setattr("sys.stderr", terminal)
        page_of(exchange("t"))
        if terminal.isatty():
            assert re.findall(r"[^\r\n]+[\r\n]", terminal.getvalue()) == [
                "kproxy: counting: 99 %\r", "kproxy: counting: 99 %\r", "kproxy: writing the page: 0 of 1 rows\r",
                "kproxy: writing the page: 1 of 1 rows\n",
            ]  # fmt: skip
        else:
            assert not terminal.getvalue()
