"""Reports of findings, grouped by cause, in every format."""

import io
import json
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest

from kproxy.filters import parse
from kproxy.outputs import rulebook
from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.reports import Report, json_array, junit, sarif, text
from kproxy.trace.lines import (
    CloseLine,
    EditEntry,
    ExcerptEntry,
    FindingEntry,
    FindingLine,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from kproxy.verdict.causes import Causes

COMMON = {"v": 1, "ts": "2026-11-21T03:41:00.123456Z"}
ENDPOINTS = {"client": "10.0.0.1:5", "server": "10.0.0.2:9092"}


def response(connection: str, *findings: FindingEntry, api: str = "Metadata", version: int = 0) -> ResponseLine:
    return ResponseLine(**COMMON, **ENDPOINTS, connection_id=connection, api=api, api_version=version,
                        correlation_id=7, size=40, offset=100, findings=list(findings))  # fmt: skip


def request(offset: int, *findings: FindingEntry) -> RequestLine:
    return RequestLine(**COMMON, **ENDPOINTS, connection_id="a-1", api="Metadata", api_version=0, correlation_id=7,
                       size=40, offset=offset, findings=list(findings))  # fmt: skip


def trailing_bytes_finding(path: str = "topics[2].name", **more: Any) -> FindingEntry:
    return FindingEntry("L001", "trailing-bytes", "error", "3 bytes left", path=path, span=(32, 35), **more)


def close_line(connection: str, *repeated: RepeatEntry) -> CloseLine:
    return CloseLine(**COMMON, **ENDPOINTS, connection_id=connection, repeated=list(repeated))


def collect_causes(*lines: Line, file: str = "a.pcap") -> Causes:
    collected = Causes()
    collected.begin(file)
    for line in lines:
        collected.add(line)
    return collected


def test_filtered_report_recognises_that_a_wait_has_ended() -> None:
    def count_row(*responses: Line) -> str:
        waiting_finding = FindingLine(**COMMON, connection_id="a-1", code="C020", name="request-waits",
                                      severity="warning", message="it waits", direction="request",
                                      offset=0)  # fmt: skip
        file = io.StringIO()
        report = Report(file, parse("finding=C020"), "text", Selection())
        report.begin("a.pcap")
        report.write_all([request(0), waiting_finding, *responses])
        report.close()
        return next(line for line in file.getvalue().splitlines() if "seen: " in line)

    assert count_row().endswith("seen: once, it lasts")
    assert count_row(msgspec.structs.replace(response("a-1"), request_offset=0)).endswith("seen: once")


def analysed_inputs(*lines: Line, file: str = "a.pcap", packets: int | None = None) -> AnalysedInputs:
    inputs = AnalysedInputs()
    inputs.begin(file)
    for line in lines:
        inputs.add(line)
    if packets is not None:
        inputs.add_packets(packets)
    return inputs


WARNING = FindingLine(**COMMON, connection_id="c-1", code="C002", name="out-of-order-response",
                      severity="warning", message="\x1bodd", hint="wait", direction="response", offset=5)  # fmt: skip
SAMPLE_LINES = (
    OpenLine(**COMMON, **ENDPOINTS, connection_id="c-1"),
    WARNING,
    response("c-1", trailing_bytes_finding(blame="broker", excerpt=ExcerptEntry(32, "010203"))),
    response("c-2", trailing_bytes_finding("topics[7].name")),
    close_line("c-2", RepeatEntry("L001", "trailing-bytes", 5)),
)


def test_cause_shows_its_first_finding_and_a_count() -> None:
    first, second = collect_causes(*SAMPLE_LINES).sorted_causes()
    assert first.finding.path == "topics[2].name"
    assert (first.count, set(first.connections)) == (7, {"c-1", "c-2"})
    assert first.place.offset == 100
    assert second.finding.code == "C002"
    assert second.place.client == "10.0.0.1:5"


@pytest.mark.parametrize(
    "different_line",
    [
        response("c-1", trailing_bytes_finding(), api="Fetch"),
        response("c-1", trailing_bytes_finding(), version=1),
        response("c-1", trailing_bytes_finding("brokers")),
        response("c-1", trailing_bytes_finding(edit=EditEntry("field_missing", "brokers", {"where": 0}))),
    ],
)
def test_different_api_version_field_or_edit_is_a_different_cause(different_line: Line) -> None:
    assert [
        cause.count
        for cause in collect_causes(response("c-1", trailing_bytes_finding()), different_line).sorted_causes()
    ] == [
        1,
        1,
    ]


def test_confidence_does_not_distinguish_causes() -> None:
    lines = [
        response("c-1", trailing_bytes_finding(edit=EditEntry("x", "y"), confidence=confidence))
        for confidence in (0.9, 0.95)
    ]
    assert len(collect_causes(*lines).sorted_causes()) == 1


def test_ambiguous_repeats_are_assigned_to_no_cause() -> None:
    lines = [response("c-1", trailing_bytes_finding()), response("c-1", trailing_bytes_finding(), api="Fetch")]
    sorted_causes = collect_causes(*lines, close_line("c-1", RepeatEntry("L001", "trailing-bytes", 5))).sorted_causes()
    assert [(cause.count, cause.unassigned) for cause in sorted_causes] == [(1, 5), (1, 5)]


def test_worst_and_most_frequent_causes_come_first() -> None:
    lines = [WARNING] * 9 + [
        response("c-1", trailing_bytes_finding("a")),
        *[response("c-1", trailing_bytes_finding("b"))] * 2,
    ]
    order = [(cause.finding.code, cause.finding.path) for cause in collect_causes(*lines).sorted_causes()]
    assert order == [("L001", "b"), ("L001", "a"), ("C002", None)]


def test_text_shows_location_and_count() -> None:
    file = io.StringIO()
    text.write(collect_causes(*SAMPLE_LINES), file, analysed_inputs(*SAMPLE_LINES))
    rows = file.getvalue().splitlines()
    assert rows[0] == "error: L001 trailing-bytes: 3 bytes left"
    assert rows[1:4] == [
        "  --> a.pcap: connection c-1 (10.0.0.1:5 -> 10.0.0.2:9092)",
        "      Metadata v0 response, correlation id 7, byte 100 of the stream, 2026-11-21T03:41:00.123456Z",
        "      topics[2].name, bytes 32..35 of the frame (3 bytes)",
    ]
    assert "            = seen: 7 times on 2 connections" in rows
    assert "warning: C002 out-of-order-response: \\x1bodd" in rows
    assert rows[-2:] == ["1 error, 1 warning", "analysed: 1 file, 1 connection, 2 frames"]
    file = io.StringIO()
    text.write(collect_causes(), file, analysed_inputs(response("c-1")))
    assert file.getvalue() == "no findings\nanalysed: 1 file, 0 connections, 1 frame\n"
    file = io.StringIO()
    text.write(collect_causes(), file, analysed_inputs(packets=3))
    assert file.getvalue() == (
        "nothing was analysed: no Kafka frame was found (1 file, 3 packets, 0 connections, 0 frames)\n"
    )


def test_json_has_the_keys_of_explain_plus_location_and_count() -> None:
    first, second = json.loads(json_array.report(collect_causes(*SAMPLE_LINES)))
    assert set(first) == {"code", "name", "severity", "blame", "message", "path", "span", "hint", "where", "count",
                          "connections"}  # fmt: skip
    assert first["where"]["file"] == "a.pcap"
    assert (first["count"], first["connections"]) == (7, 2)
    assert second["path"] is None
    assert json.loads(json_array.report(collect_causes())) == []


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required.split(), "properties": properties}


def _array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items} | more


_TEXT, _URI, _COUNT = {"type": "string"}, {"type": "string", "format": "uri"}, {"type": "integer", "minimum": 0}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_BAG = {"type": "object", "properties": {"tags": _array(_TEXT, uniqueItems=True)}}
_MESSAGE = _object("text", text=_TEXT, markdown=_TEXT)
_FILE = _object(uri={"type": "string", "format": "uri-reference", "pattern": r"^[^\s]+$"})
#: The schema of SARIF 2.1.0, reduced to the objects and keys of the report.
SARIF = _object(
    "version runs",
    version={"const": "2.1.0"},
    runs=_array(
        _object(
            "tool",
            tool=_object(
                "driver",
                driver=_object(
                    "name",
                    name=_TEXT,
                    version=_TEXT,
                    rules=_array(
                        _object("id", id=_TEXT, name=_TEXT, shortDescription=_MESSAGE, help=_MESSAGE, helpUri=_URI,
                                defaultConfiguration=_object(level=_LEVEL), properties=_BAG),
                        uniqueItems=True,
                    ),
                ),
            ),
            invocations=_array(
                _object(
                    "executionSuccessful",
                    executionSuccessful={"type": "boolean"},
                    toolExecutionNotifications=_array(_object("message", level=_LEVEL, message=_MESSAGE)),
                )
            ),
            properties=_BAG,
            artifacts=_array(
                _object(location=_FILE, roles=_array({"enum": ["analysisTarget"]}, uniqueItems=True), properties=_BAG),
                uniqueItems=True,
            ),
            results=_array(
                _object(
                    "message",
                    ruleId=_TEXT, ruleIndex=_COUNT, level=_LEVEL, message=_MESSAGE,
                    occurrenceCount={"type": "integer", "minimum": 1},
                    partialFingerprints={"type": "object", "additionalProperties": _TEXT},
                    properties=_BAG,
                    locations=_array(
                        _object(
                            physicalLocation=_object(
                                "artifactLocation",
                                artifactLocation=_FILE,
                                region=_object(byteOffset=_COUNT, byteLength=_COUNT),
                            ),
                            logicalLocations=_array(_object(fullyQualifiedName=_TEXT, kind=_TEXT), uniqueItems=True),
                        )
                    ),
                )
            ),
        )
    ),
)  # fmt: skip
SARIF["properties"]["$schema"] = _URI


def test_sarif_is_valid_and_points_into_the_stream() -> None:
    reported_causes = collect_causes(*SAMPLE_LINES, file="dir with blank/a.pcap")
    reported_causes.begin("dir with blank/a.pcap")  # the same file is passed twice
    counts = analysed_inputs(*SAMPLE_LINES, file="dir with blank/a.pcap", packets=9)
    log = json.loads(sarif.report(reported_causes, counts, ["a.pcap: cut off"]))
    jsonschema.Draft7Validator(SARIF).validate(log)
    [run] = log["runs"]
    assert run["properties"] == {"analysed": {"files": 1, "packets": 9, "connections": 1, "frames": 2}}
    assert run["artifacts"][0]["properties"] == {"packets": 9, "connections": 1, "frames": 2}
    [invocation] = run["invocations"]
    assert [notification["message"]["text"] for notification in invocation["toolExecutionNotifications"]] == [
        "a.pcap: cut off",
        "analysed: 1 file, 9 packets, 1 connection, 2 frames",
    ]
    rule, *_ = [rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "L001"]
    assert "## Why it matters" in rule["help"]["markdown"]
    first, second = run["results"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "L001"
    [location] = first["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "dir%20with%20blank/a.pcap"},
        "region": {"byteOffset": 132, "byteLength": 3},
    }
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "Metadata v0 response.topics[2].name"
    assert (first["level"], first["occurrenceCount"], second["level"]) == ("error", 7, "warning")


def test_sarif_fingerprints_do_not_depend_on_location() -> None:
    def fingerprint(*lines: Line, file: str) -> str:
        [result] = json.loads(sarif.report(collect_causes(*lines, file=file), analysed_inputs(*lines)))["runs"][0][
            "results"
        ]
        return str(result["partialFingerprints"]["kproxyCause/v1"])

    expected = fingerprint(response("c-1", trailing_bytes_finding()), file="a.pcap")
    assert expected == fingerprint(response("z-9", trailing_bytes_finding("topics[0].name")), file="/b.pcap")
    assert expected != fingerprint(response("c-1", trailing_bytes_finding(), version=1), file="a.pcap")


def test_sarif_includes_a_rule_for_an_unknown_code() -> None:
    line = response("c-1", FindingEntry("L999", "new", "error", "m"))
    log = json.loads(sarif.report(collect_causes(line), analysed_inputs(line)))
    jsonschema.Draft7Validator(SARIF).validate(log)
    assert log["runs"][0]["tool"]["driver"]["rules"] == [{"id": "L999", "name": "new"}]


def test_junit_has_a_suite_per_file_and_a_case_per_rule() -> None:
    reported_causes = collect_causes(*SAMPLE_LINES)
    reported_causes.begin("b.pcap")
    root = ElementTree.fromstring(
        junit.report(reported_causes, Selection(["L", "C"]), analysed_inputs(*SAMPLE_LINES, packets=9))
    )
    first, second = root
    online = [entry for entry in rulebook.entries() if entry.code[0] in "LC" and not entry.offline]
    assert first.attrib == {"name": "a.pcap", "tests": str(len(online)), "errors": "0", "failures": "1"}
    assert second.attrib["failures"] == "0"
    assert len(first.findall("testcase")) == len(second.findall("testcase")) == len(online)
    assert {
        suite_property.attrib["name"]: suite_property.attrib["value"] for suite_property in first.iter("property")
    } == {
        "kproxy.packets": "9",
        "kproxy.connections": "1",
        "kproxy.frames": "2",
    }
    [failure] = first.iter("failure")
    assert failure.attrib == {"type": "error", "message": "3 bytes left"}
    assert "= seen: 7 times on 2 connections" in (failure.text or "")
    [system_out] = first.iter("system-out")
    assert "C002 out-of-order-response" in (system_out.text or "")
    assert not list(second.iter("failure"))


@pytest.mark.parametrize(("fail_on", "failures"), [("warning", 2), ("error", 1), ("never", 0)])
def test_junit_has_failures_at_or_above_the_threshold(fail_on: str, failures: int) -> None:
    root = ElementTree.fromstring(
        junit.report(collect_causes(*SAMPLE_LINES), Selection(fail_on=fail_on), analysed_inputs(*SAMPLE_LINES))
    )
    assert len(list(root.iter("failure"))) == failures
    assert root[0].attrib["failures"] == str(failures)


def test_junit_has_an_error_if_nothing_was_analysed() -> None:
    [suite] = ElementTree.fromstring(junit.report(collect_causes(), Selection(["X"]), analysed_inputs(packets=3)))
    assert suite.attrib["errors"] == "1"
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    [error] = suite.iter("error")
    assert error.attrib["message"].startswith("nothing was analysed: ")


def test_cause_in_a_request_counts_as_served_if_the_response_succeeds() -> None:
    first, second = trailing_bytes_finding(), trailing_bytes_finding("throttle_time_ms")
    response_line = msgspec.structs.replace(response("a-1"), request_ts=COMMON["ts"])
    requests = [request(0, first), request(100, second)]
    for offset, served in ((0, [1, 0]), (100, [0, 1]), (200, [0, 0]), (None, [1, 0])):
        reported_causes = collect_causes(*requests, msgspec.structs.replace(response_line, request_offset=offset))
        assert [
            cause.served for cause in sorted(reported_causes.sorted_causes(), key=lambda cause: cause.place.offset or 0)
        ] == served


@pytest.mark.parametrize("end", [close_line("a-1"), OpenLine(**COMMON, **ENDPOINTS, connection_id="a-1")])
def test_response_on_a_reused_connection_id_does_not_serve_the_cause(end: Line) -> None:
    response_line = msgspec.structs.replace(response("a-1"), request_ts=COMMON["ts"], request_offset=0)
    [cause] = collect_causes(request(0, trailing_bytes_finding()), end, response_line).sorted_causes()
    assert cause.served == 0
