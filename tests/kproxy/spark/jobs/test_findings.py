from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dissectors.findings import Severity
from dissectors.rules import rules
from kproxy.spark.jobs.findings import findings
from kproxy.trace.lines import RepeatEntry
from tests.kproxy.spark.reference import assert_rows, client_of
from tests.kproxy.spark.sample_lines import close, finding, finding_entry, request, response, table

ENDPOINTS = {"client": "app", "broker": "10.0.0.1:9092"}


def test_findings_of_frames_connections_and_repeats_are_reported(spark: SparkSession) -> None:
    lines = table(
        spark,
        request(at=1, offset=7, findings=[finding_entry("L001")]),
        response(
            at=2, offset=9, findings=[finding_entry("L001", severity="error"), finding_entry("S001", severity="info")]
        ),
        close(at=3, repeated=[RepeatEntry("L001", "rule-l001", 5), RepeatEntry("V012", "produce-min0-shim", 2)]),
        request(at=1, connection_id="n-1-2", client_id=None),
        finding("C016", at=4, connection_id="n-1-2", direction="response", offset=11),
        finding("C016", at=5, connection_id="n-1-3"),  # nothing else is known about its connection
    )
    rows = [row.asDict() for row in findings(lines).drop("first_at", "last_at", "at").collect()]
    frame_fields = {"connection_id": "n-1-1", "direction": "request", "offset": 7}
    assert rows == [
        {"severity": "error", "code": "L001", "name": "rule-l001", **ENDPOINTS, "findings": 7,
         "message": "L001 is wrong", **frame_fields},
        {"severity": "warning", "code": "C016", "name": "rule-c016", "client": None, "broker": None, "findings": 1,
         "message": "C016 is wrong", "connection_id": "n-1-3", "direction": None, "offset": None},
        {"severity": "warning", "code": "C016", "name": "rule-c016", "client": "10.0.0.9", "broker": "10.0.0.1:9092",
         "findings": 1, "message": "C016 is wrong", "connection_id": "n-1-2", "direction": "response", "offset": 11},
        {"severity": "info", "code": "V012", "name": "produce-min0-shim", **ENDPOINTS, "findings": 2, "message": None,
         "connection_id": None, "direction": None, "offset": None},
        {"severity": "info", "code": "S001", "name": "rule-s001", **ENDPOINTS, "findings": 1,
         "message": "S001 is wrong", "connection_id": "n-1-1", "direction": "response", "offset": 9},
    ]  # fmt: skip


def test_client_is_the_last_one_seen_on_the_connection(spark: SparkSession) -> None:
    simultaneous_requests = [request(at=1, client_id=name) for name in ("b", "a")]
    [row] = findings(table(spark, *simultaneous_requests, finding("C016", at=0))).collect()
    assert row["client"] == "b"


def test_findings_match_plain_python_for_captures(captured: DataFrame) -> None:
    lines = captured.collect()
    last_client_ids: dict[str, tuple[Any, ...]] = {}
    endpoints: dict[str, tuple[str, str]] = {}
    for line in lines:
        if line["client_id"] is not None:
            last_client_ids[line["connection_id"]] = max(
                last_client_ids.get(line["connection_id"], ()), (line["ts"], line["client_id"])
            )
        if line["client"] is not None:
            endpoints[line["connection_id"]] = line["client"], line["server"]
    occurrences_by_key: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for line in lines:
        connection_id = line["connection_id"]
        address, broker = endpoints.get(connection_id, (None, None))
        last_client_id = last_client_ids.get(connection_id, (None, None))[1]
        client = (
            client_of({"client_id": line["client_id"] or last_client_id, "client": address})
            if address
            else last_client_id
        )
        findings_of_line = [line] if line["kind"] == "finding" else line["findings"] or []
        direction = line["kind"] if line["kind"] in ("request", "response") else line["direction"]
        for entry in findings_of_line:
            key = entry["code"], entry["name"], client, broker
            sort_key = line["ts"], connection_id, line["offset"] or 0, direction or ""
            example = (*sort_key, line["offset"], entry["message"])
            occurrences_by_key[key].append((1, entry["severity"], line["ts"], example))
        for entry in line["repeated"] or []:
            occurrences_by_key[entry["code"], entry["name"], client, broker].append(
                (entry["count"], None, line["ts"], None)
            )
    rule_severities = {rule.code: rule.severity.value for rule in rules()}
    order = [severity.value for severity in Severity]
    expected = []
    for (code, name, client, broker), occurrences in occurrences_by_key.items():
        severities = [severity for _, severity, _, _ in occurrences if severity]
        at, connection_id, _, direction, offset, message = min(
            (example for *_, example in occurrences if example), default=(None,) * 6
        )
        expected.append({
            "severity": max(severities, key=order.index) if severities else rule_severities.get(code),
            "code": code, "name": name, "client": client, "broker": broker,
            "findings": sum(occurrence_count for occurrence_count, *_ in occurrences),
            "first_at": min(ts for _, _, ts, _ in occurrences), "last_at": max(ts for _, _, ts, _ in occurrences),
            "message": message, "connection_id": connection_id, "direction": direction or None, "offset": offset,
            "at": at,
        })  # fmt: skip
    expected.sort(key=lambda row: (-order.index(row["severity"]), -row["findings"], row["code"], row["name"],
                                   row["client"] or "", row["broker"] or ""))  # fmt: skip
    assert len(expected) > 20
    assert_rows(findings(captured), expected)
