"""In captures of real clients and brokers with one bug each, the only finding reports the bug and its bytes once."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kproxy.trace.lines import Detail, Line, RequestLine, ResponseLine
from tests.kproxy.capture_results import DATA, causes_of, lines_of
from tests.kproxy.captures.expectation import Expected, edit, expected_from

BUGS = DATA / "bugs"


class BugFinding(NamedTuple):
    """A finding in frames of an API version; API and version are None if the response cannot be paired."""

    api: str | None
    version: int | None
    finding: Expected


def _finding(api: str | None, version: int | None, code: str, written: dict[str, Any] | None, span: tuple[int, int],
          path: str, at: str) -> BugFinding:  # fmt: skip
    return BugFinding(api, version, Expected(code, written, span, path, at))


def _advertised(api: str, version: int, start: int, path: str) -> BugFinding:
    return _finding(api, version, "S001", None, (start, start + 4), path, "00002384")


def _header(api: str, version: int, written: int, end: int, at: str) -> BugFinding:
    return _finding(
        api, version, "L008", edit("header_version", "header", written=written), (8, end), "header._tags", at
    )


def _throttle(api: str, version: int, code: str, written: dict[str, Any], start: int, end: int) -> BugFinding:
    return _finding(api, version, code, written, (start, end), "throttle_time_ms", "00000000")


def _wrong_id(at: str) -> BugFinding:
    return _finding(None, None, "C001", None, (4, 8), "header.correlation_id", at)


_INT32_RECORD_LENGTH = _finding(
    "Fetch", 11, "R007", edit("record_encoding", "responses[].partitions[].records", written="record_length_int32"),
    (132, 136), "responses[0].partitions[0].records[0].records[0].length", "00000012",
)  # fmt: skip
_APPENDED = edit("field_from_version", "throttle_time_ms", from_version=1, place=2)
_FIRST = edit("field_from_version", "throttle_time_ms", from_version=3, place=0)
_NOT_FLEXIBLE = _finding(
    "ApiVersions", 3, "L010", edit("flexibility", written="fixed"), (10, 92), "api_keys", "0000000d"
)
_BODY_V1 = edit("body_version", body_version=1, header=None)
_THROTTLE_LAST = edit("field_moved", "throttle_time_ms", from_=0, to=6)
_THROTTLE_TWICE = edit("field_duplicated", "throttle_time_ms", where=7)
_PRODUCE_THROTTLE_FIRST = edit("field_moved", "throttle_time_ms", from_=1, to=0)
_EXTRA_RACK = _finding("Metadata", 0, "L006", _BODY_V1, (31, 33), "brokers[0].rack", "ffff")

FOUND = {
    "advertised-mismatch--java": [_advertised("Metadata", 8, 31, "brokers[0].port")],
    "advertised-mismatch--kafka-go": [_advertised("Metadata", 6, 31, "brokers[0].port")],
    "advertised-mismatch--kafkajs": [_advertised("Metadata", 6, 31, "brokers[0].port")],
    "advertised-mismatch--librdkafka": [_advertised("Metadata", 8, 31, "brokers[0].port")],
    "apiversions-header-v1--java": [_header("ApiVersions", 3, 1, 9, "00")],
    "apiversions-v0-throttle--java": [_throttle("ApiVersions", 0, "L005", _APPENDED, 92, 96)],
    "apiversions-v0-throttle--kafka-go": [_throttle("ApiVersions", 0, "L005", _APPENDED, 92, 96)],
    "apiversions-v0-throttle--kafkajs": [_throttle("ApiVersions", 0, "L005", _APPENDED, 92, 96)],
    "apiversions-v0-throttle--librdkafka": [_throttle("ApiVersions", 0, "L005", _APPENDED, 92, 96)],
    "apiversions-v3-nonflex--java": [_NOT_FLEXIBLE],
    "apiversions-v3-nonflex--librdkafka": [_NOT_FLEXIBLE],
    "batch-int32-length--java": [_INT32_RECORD_LENGTH],
    "batch-int32-length--kafkajs": [_INT32_RECORD_LENGTH],
    "batch-int32-length--librdkafka": [_INT32_RECORD_LENGTH],
    "corrid-wrong--java": [_wrong_id("000003ea")],
    "corrid-wrong--kafka-go": [_wrong_id("000003eb")],
    "corrid-wrong--kafkajs": [_wrong_id("000003e9")],
    "corrid-wrong--librdkafka": [_wrong_id("000003ea")],
    "findcoordinator-v0-v1fields--kafka-go": [_throttle("FindCoordinator", 0, "L006", _BODY_V1, 8, 12)],
    "findcoordinator-v0-v1fields--kafkajs": [_throttle("FindCoordinator", 0, "L006", _BODY_V1, 8, 12)],
    "findcoordinator-v0-v1fields--librdkafka": [_throttle("FindCoordinator", 0, "L006", _BODY_V1, 8, 12)],
    "flex-header-missing--java": [_header("Metadata", 9, 0, 8, "00000000")],
    "flex-header-missing--librdkafka": [_header("Metadata", 9, 0, 8, "00000000")],
    "joingroup-v2-throttle-dup--java": [_throttle("JoinGroup", 2, "L035", _THROTTLE_TWICE, 86, 90)],
    "joingroup-v2-throttle-dup--kafka-go": [_throttle("JoinGroup", 2, "L035", _THROTTLE_TWICE, 76, 80)],
    "joingroup-v2-throttle-dup--kafkajs": [_throttle("JoinGroup", 2, "L035", _THROTTLE_TWICE, 89, 93)],
    "joingroup-v2-throttle-end--java": [_throttle("JoinGroup", 2, "L003", _THROTTLE_LAST, 8, 8)],
    "joingroup-v2-throttle-end--kafka-go": [_throttle("JoinGroup", 2, "L003", _THROTTLE_LAST, 8, 8)],
    "joingroup-v2-throttle-end--librdkafka": [_throttle("JoinGroup", 2, "L003", _THROTTLE_LAST, 8, 8)],
    "metadata-throttle-first--java": [_throttle("Metadata", 2, "L005", _FIRST, 8, 12)],
    "metadata-throttle-first--kafka-go": [  # two components of kafka-go request different versions
        _throttle("Metadata", 1, "L005", _FIRST, 8, 12), _throttle("Metadata", 2, "L005", _FIRST, 8, 12)
    ],
    "metadata-throttle-first--librdkafka": [_throttle("Metadata", 2, "L005", _FIRST, 8, 12)],
    "metadata-v0-v1fields--kafka-go": [_EXTRA_RACK],
    "metadata-v0-v1fields--librdkafka": [_EXTRA_RACK],
    "produce-throttle-first--java": [_throttle("Produce", 8, "L003", _PRODUCE_THROTTLE_FIRST, 8, 12)],
    "produce-throttle-first--kafka-go": [_throttle("Produce", 7, "L003", _PRODUCE_THROTTLE_FIRST, 8, 12)],
    "produce-throttle-first--kafkajs": [_throttle("Produce", 7, "L003", _PRODUCE_THROTTLE_FIRST, 8, 12)],
    "produce-throttle-first--librdkafka": [_throttle("Produce", 8, "L003", _PRODUCE_THROTTLE_FIRST, 8, 12)],
}  # fmt: skip

#: Conversations in which the broken response was never sent, each with the reason.
NOT_REACHED = {
    "apiversions-header-v1--kafka-go": "asks for ApiVersions v0 only",
    "batch-int32-length--kafka-go": "ends before the first Fetch",
    "findcoordinator-v0-v1fields--java": "ends before the first FindCoordinator",
    "metadata-v0-v1fields--java": "refuses to send Metadata v0",
}

#: Capture files without packets.
EMPTY = {
    "apiversions-header-v1--kafkajs", "apiversions-header-v1--librdkafka", "apiversions-v3-nonflex--kafka-go",
    "apiversions-v3-nonflex--kafkajs", "flex-header-missing--kafka-go", "flex-header-missing--kafkajs",
    "joingroup-v2-throttle-dup--librdkafka", "joingroup-v2-throttle-end--kafkajs", "metadata-throttle-first--kafkajs",
    "metadata-v0-v1fields--kafkajs", "none--kafka-go",
}  # fmt: skip

CONTROLS = {"none--java", "none--kafkajs", "none--librdkafka"}

#: Mistakes of the clients themselves: (client, code) -> API, version and span.
CLIENT_FAULTS = {
    # kafka-go declares version 1 of the subscription, which has owned_partitions after user_data, but writes version 0:
    # the 13 bytes are 0001 00000001 0001 74 ffffffff (segmentio/kafka-go#1156).
    ("kafka-go", "L028"): ("JoinGroup", 2, (86, 103)),
    # Null means "all topics" only from version 1 on; version 0 uses the empty list for that.
    ("kafka-go", "L020"): ("Metadata", 0, (14, 18)),
}


def causes_above_info(name: str) -> list[BugFinding]:
    """Return all causes above info, except known faults of the client."""
    bug_findings = []
    for line, finding in causes_of(BUGS / f"{name}.pcap.gz", detail=Detail.FULL):
        api, version = (line.api, line.api_version) if isinstance(line, RequestLine | ResponseLine) else (None, None)
        actual = expected_from(finding)
        is_client_fault = CLIENT_FAULTS.get((name.partition("--")[2], finding.code)) == (
            api,
            version,
            actual.span,
        )
        if finding.severity != "info" and not (is_client_fault and isinstance(line, RequestLine)):
            bug_findings.append(BugFinding(api, version, actual))
    return bug_findings


def lines(name: str) -> list[Line]:
    return list(lines_of(BUGS / f"{name}.pcap.gz"))


def test_every_capture_is_listed() -> None:
    names = sorted(path.name.removesuffix(".pcap.gz") for path in BUGS.glob("*.pcap.gz"))
    assert names == sorted([*FOUND, *NOT_REACHED, *EMPTY, *CONTROLS])


@pytest.mark.parametrize(("name", "expected"), FOUND.items(), ids=FOUND)
def test_bug_is_reported_once(name: str, expected: list[BugFinding]) -> None:
    assert causes_above_info(name) == expected


@pytest.mark.parametrize("name", sorted([*NOT_REACHED, *CONTROLS]))
def test_captures_without_a_broken_frame_have_no_findings(name: str) -> None:
    assert lines(name) != []
    assert causes_above_info(name) == []


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_empty_capture_has_no_lines(name: str) -> None:
    assert lines(name) == []
