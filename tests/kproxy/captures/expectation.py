"""The expected finding for each capture that is made from a story."""

from __future__ import annotations

from typing import Any, NamedTuple

from dissectors.edits import Edit
from kproxy.trace.lines import FindingEntry, FindingLine
from kproxy.verdict.as_json import finding_as_json


class Expected(NamedTuple):
    """The only expected finding above info. `at` holds up to four bytes from the start of its span, as hex."""

    code: str
    edit: dict[str, Any] | None = None
    span: tuple[int, int] | None = None
    path: str | None = None
    at: str = ""
    severity: str = "error"


def edit(kind: str, field: str = "*", /, then: dict[str, Any] | None = None, **detail: Any) -> dict[str, Any]:
    """Return an edit as ``kproxy explain --json`` prints it."""
    as_json = Edit.of(kind, field, **detail).as_json()
    return as_json if then is None else as_json | {"then": then}


def _body_of_version(version: int) -> dict[str, Any]:
    return edit("body_version", body_version=version, header=None)


_NOT_FLEXIBLE = edit("flexibility", written="fixed")
_THROTTLE = "throttle_time_ms"

LAYOUTS = {
    "api-versions-v0-throttle-appended": Expected(
        "L005", edit("field_from_version", _THROTTLE, from_version=1, place=2), (98, 102), _THROTTLE, "00000000"
    ),
    "api-versions-v3-not-flexible": Expected("L010", _NOT_FLEXIBLE, (10, 98), "api_keys", "0000000e"),
    "api-versions-v3-tag-buffer-in-header": Expected(
        "L008", edit("header_version", "header", written=1), (8, 9), "header._tags", "00"
    ),
    "metadata-v1-throttle-first": Expected(
        "L005", edit("field_from_version", _THROTTLE, from_version=3, place=0), (8, 12), _THROTTLE, "00000000"
    ),
    "metadata-v1-in-the-layout-of-v3": Expected("L006", _body_of_version(3), (8, 12), _THROTTLE, "00000000"),
    "metadata-v0-with-fields-of-v1": Expected("L006", _body_of_version(1), (30, 32), "brokers[0].rack", "ffff"),
    "metadata-v1-without-its-fields": Expected("L006", _body_of_version(0), (30, 30), "brokers[0].rack", "00000001"),
    "find-coordinator-v0-with-fields-of-v1": Expected("L006", _body_of_version(1), (8, 12), _THROTTLE, "00000000"),
    "find-coordinator-v0-with-fields-of-v1-null": Expected("L006", _body_of_version(1), (8, 12), _THROTTLE, "00000000"),
    "join-group-v2-throttle-last": Expected(
        "L003", edit("field_moved", _THROTTLE, from_=0, to=6), (8, 8), _THROTTLE, "00000000"
    ),
    "join-group-v2-throttle-twice": Expected(
        "L035", edit("field_duplicated", _THROTTLE, where=7), (140, 144), _THROTTLE, "00000000"
    ),
    "list-offsets-v2-without-throttle": Expected(
        "L004", edit("field_missing", _THROTTLE, where=0), (8, 8), _THROTTLE, "00000001"
    ),
    "fetch-v5-in-the-layout-of-v3": Expected(
        "L006", _body_of_version(3), (42, 42), "responses[0].partitions[0].last_stable_offset", "00000056"
    ),
    "produce-v2-throttle-first": Expected(
        "L003", edit("field_moved", _THROTTLE, from_=1, to=0), (8, 12), _THROTTLE, "00000000"
    ),
    "fetch-v11-records-with-int32-lengths": Expected(
        "R007", edit("record_encoding", "responses[].partitions[].records", written="record_length_int32"), (137, 141),
        "responses[0].partitions[0].records[0].records[0].length", "0000000b",
    ),
    "metadata-v9-without-tag-buffer-in-header": Expected(
        "L008", edit("header_version", "header", written=0), (8, 8), "header._tags", "00000000"
    ),
    "join-group-v2-generic-error-body": Expected("L007", edit("generic_error_body"), (8, 8), _THROTTLE, "0019"),
    "find-coordinator-v1-correlation-id-twice": Expected(
        "L030", edit("duplicated_prefix", "header.correlation_id", prefix="correlation_id"), (8, 12),
        "header.correlation_id", "00000002",
    ),
    "fetch-v12-body-not-flexible": Expected("L010", _NOT_FLEXIBLE, (19, 163), "responses", "00000001"),
    "fetch-v12-not-flexible": Expected(
        "L006", edit("body_version", "*", body_version=11, header=0), (8, 8), "header._tags", "00000000"
    ),
}  # fmt: skip

BEHAVIOURS = {
    "advertised-address-not-dialled": Expected("S001", None, (20, 31), "brokers[0].host", "00096c6f"),
    "metadata-retry-loop": Expected("S005"),
    "join-group-never-synced": Expected("S013"),
    "member-ids-that-change": Expected("S016", None, (32, 39), "member_id", "00056170", "warning"),
    "coordinator-that-denies-being-one": Expected("S022", None, (16, 18), "error_code", "0010"),
    "fetches-empty-below-high-watermark": Expected(
        "S024", None, (72, 76), "responses[0].partitions[0].records", "00000000"
    ),
    "tls-on-kafkas-port": Expected("X001"),
    "http-on-kafkas-port": Expected("X003"),
    "sasl-plain-in-the-clear": Expected("X005", None, (17, 24), "mechanism", "0005504c", "warning"),
    "old-client-at-kafka-4": Expected("V002", None, (6, 8), "header.request_api_version", "0002"),
    "old-client-before-kafka-4": Expected("V011", None, (6, 8), "header.request_api_version", "0002", "info"),
}


def expected_from(finding: FindingEntry | FindingLine) -> Expected:
    """Return a finding as an expectation; its bytes come from the excerpt."""
    if isinstance(finding, FindingLine):
        return Expected(finding.code, severity=finding.severity)
    edit_json = None if finding.edit is None else finding_as_json(finding)["edit"]
    return Expected(finding.code, edit_json, finding.span, finding.path, _bytes_at(finding), finding.severity)


def _bytes_at(finding: FindingEntry) -> str:
    if finding.span is None or finding.excerpt is None:
        return ""
    start, end = (offset - finding.excerpt.start for offset in finding.span)
    return bytes.fromhex(finding.excerpt.hex)[start : min(end if end > start else start + 4, start + 4)].hex()
