from __future__ import annotations

import base64
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from dissectors.rules.offline import FLEET_RULES
from kproxy.spark.jobs.rules import rules
from kproxy.spark.rules import rules as fleet_rules
from kproxy.trace.lines import ErrorEntry, Line, TopicEntry
from tests.kproxy.spark.reference import assert_rows
from tests.kproxy.spark.sample_lines import close, open_, request, response, table

_INTERVAL_S = 0.05  # a frame every 50 ms makes 1200 a minute


def error_response(
    at: float, name: str, path: str = "responses[0].partition_responses[1].error_code", **columns: Any
) -> Line:
    return response("Produce", at=at, errors=[ErrorEntry(path, 1, name)], **columns)


def batches(*sizes: int) -> list[TopicEntry]:
    return [TopicEntry("orders", None, list(range(len(sizes))), sum(sizes), 9, len(sizes), [], list(sizes))]


def single_batch_request(records: int, number: int) -> Line:
    return request("Produce", at=number * _INTERVAL_S, topics=[TopicEntry("t", records=records, batches=1)])


def values_request(*values: bytes | None, **columns: Any) -> Line:
    records = [{"value": None if value is None else base64.b64encode(value).decode()} for value in values]
    entry = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition_data": [{"records": [{"records": records}]}]}
    topics = [TopicEntry("orders", "AAAAAAAAAAAAAAAAAAAAAQ")]
    return request("Produce", topics=topics, body={"topic_data": [entry]}, **columns)


def connection_lines(connection_count: int, requests_per_connection: int, *, interval_s: float = 1) -> list[Line]:
    lines: list[Line] = []
    for number in range(connection_count):
        at, connection = number * interval_s, {"connection_id": f"n-1-{number}"}
        requests = [request("Produce", at=at + 0.1, **connection) for _ in range(requests_per_connection)]
        lines += [
            open_(at=at, **connection),
            request("Metadata", at=at, **connection),
            *requests,
            close(at=at + 1, **connection),
        ]
    return lines


def repeated_errors(pause_s: float, count: int, name: str = "NOT_LEADER_OR_FOLLOWER") -> list[Line]:
    return [error_response(1 + number * (pause_s + 0.001), name, offset=number) for number in range(count)]


_TELEMETRY: dict[str, Any] = {"errors": [ErrorEntry("error_code", 35, "UNSUPPORTED_VERSION")]}
_TOO_LARGE = error_response(1, "MESSAGE_TOO_LARGE", topics=batches(10, 1000), connection_id="n-1-2")

#: A rule code, lines that break the rule, the finding's client, broker and count, and a part of its message.
BROKEN: list[tuple[str, list[Line], str | None, str | None, int, str]] = [
    ("C018", connection_lines(20, 2), "app", "10.0.0.1:9092", 20,
     "opened 20 connections within an hour for 40 requests"),
    ("M008", [_TOO_LARGE, response("Produce", at=2, topics=batches(801, 10))], "app", "10.0.0.1:9092", 1,
     "batches of up to 801 bytes to orders, where one of 1000 was too large"),
    ("R026", [single_batch_request(1, number) for number in range(600)], "app", "10.0.0.1:9092", 1,
     "sent 600 Produce requests with one record a batch to 10.0.0.1:9092 in a minute, of 600"),
    ("R027", [values_request(*[b"\0\0\0\0\7{"] * 10, None, client_id="registry"),
              values_request(b"{}", b"\0\0\0\0\0\0\0\7")], "app", "10.0.0.1:9092", 1,
     "wrote 2 values without a schema id to orders, where 10 of 12 have one"),
    ("S009", [response("Metadata", at=number / 2) for number in range(60)], "app", "10.0.0.1:9092", 1, "60 times"),
    ("S031", [response(at=number * _INTERVAL_S, latency_us=900) for number in range(600)], "app", "10.0.0.1:9092", 1,
     "got 600 immediate empty Fetch responses in a minute from 10.0.0.1:9092"),
    ("S036", [response(at=1, throttle_time_ms=200), response(at=2, throttle_time_ms=1000)], "app", "10.0.0.1:9092", 2,
     "was throttled by 10.0.0.1:9092 2 times, 1.2 s in total and at most 1000 ms"),
    ("S044", [response("PushTelemetry", at=at, **_TELEMETRY) for at in range(3)], "app", "10.0.0.1:9092", 3,
     "which refused it 3 times (UNSUPPORTED_VERSION)"),
    ("S047", [error_response(at, "NOT_ENOUGH_REPLICAS", topics=batches(9, 9)) for at in (0, 50, 99)], None,
     "10.0.0.1:9092", 3, "refused batches for topic orders 3 times: NOT_ENOUGH_REPLICAS"),
    ("S048", [request(client_id="rdkafka"), request(client_id="rdkafka", client="10.0.0.8:1", connection_id="n-1-2")],
     "rdkafka", None, 2, "client id rdkafka is a library's default: 2 connections from 2 hosts use it"),
    ("S050", repeated_errors(0.049, 11), "app", "10.0.0.1:9092", 1, "10 times in a second, each time after NOT_LEADER"),
]  # fmt: skip

#: A rule code, and lines that come close to breaking the rule.
NEAR: list[tuple[str, list[Line]]] = [
    ("C018", connection_lines(19, 1)),
    ("C018", connection_lines(20, 3)),
    ("C018", connection_lines(30, 0)),  # connections with only startup requests: C017 and C019
    ("C018", connection_lines(25, 1, interval_s=300)),  # 12 an hour
    ("M008", [_TOO_LARGE, response("Produce", at=2, topics=batches(800))]),
    ("M008", [_TOO_LARGE, response("Produce", at=2, topics=batches(900), server="10.0.0.2:9092")]),
    ("M008", [_TOO_LARGE, response("Produce", at=2, topics=batches(1200))]),  # the limit was raised
    ("R026", [single_batch_request(1, number) for number in range(599)]),
    ("R026", [single_batch_request(1 + number % 3, number) for number in range(1200)]),  # only a third have one record
    ("R027", [values_request(*[b"\0\0\0\0\7{"] * 10, None)]),  # a tombstone
    ("R027", [values_request(*[b"\0\0\0\0\7{"] * 9), values_request(b"{}")]),  # too few values to tell
    (
        "R027",
        [values_request(*[b"\0\0\0\0\0\0\0\7"] * 99), values_request(b"{}")],
    ),  # eight-byte numbers, not schema ids
    ("S009", [response("Metadata", at=number) for number in range(59)]),
    ("S009", [response("Metadata", at=number / 2, connection_id=f"n-1-{number % 2}") for number in range(100)]),
    ("S031", [response(at=number * _INTERVAL_S, latency_us=50_000) for number in range(600)]),
    ("S031", [response(at=number * _INTERVAL_S, topics=[TopicEntry("t", bytes=9)]) for number in range(600)]),
    ("S036", [response(throttle_time_ms=0)]),
    ("S044", [response("PushTelemetry", at=at, **_TELEMETRY) for at in range(2)]),
    ("S044", [response("PushTelemetry", at=at) for at in range(9)]),
    ("S047", [error_response(at, "NOT_ENOUGH_REPLICAS", topics=batches(9, 9)) for at in range(2)]),
    ("S048", [request(client_id=name) for name in ("orders", "consumer-billing-1", "rdkafka-orders", "")]),
    ("S050", repeated_errors(0.050, 19)),
    ("S050", repeated_errors(0.049, 10)),  # the first one is not a repetition
    ("S050", repeated_errors(0.01, 50, "INVALID_RECORD")),  # not retriable: reported by the job "retries"
]


def rule_rows(spark: SparkSession, code: str, lines: list[Line]) -> list[Row]:
    [rule] = [rule for rule in fleet_rules() if rule.rule.code == code]
    return rule.findings(table(spark, *lines)).collect()


def test_lines_that_break_a_rule_are_reported(spark: SparkSession) -> None:
    for code, lines, client, broker, findings, message_part in BROKEN:
        rows = rule_rows(spark, code, lines)
        assert [(row["client"], row["broker"], row["findings"]) for row in rows] == [(client, broker, findings)], code
        assert message_part in rows[0]["message"]
        assert rows[0]["hint"]
        assert rows[0]["connection_id"].startswith("n-1-")


def test_lines_that_almost_break_a_rule_are_ignored(spark: SparkSession) -> None:
    for code, lines in NEAR:
        assert not rule_rows(spark, code, lines), (code, lines[-1])


def test_findings_are_sorted_by_severity(spark: SparkSession) -> None:
    lines = table(spark, request(client_id="rdkafka", at=5), response(at=10, throttle_time_ms=7))
    rows = rules(lines).drop("first_at", "last_at")
    hints = {rule.rule.code: rule.hint for rule in fleet_rules()}
    assert_rows(
        rows,
        [
            {
                "severity": "warning", "code": "S036", "name": "throttled", "client": "app", "broker": "10.0.0.1:9092",
                "findings": 1, "blame": "broker", "hint": hints["S036"], "connection_id": "n-1-1",
                "message": "client app was throttled by 10.0.0.1:9092 1 times, 0.0 s in total and at most 7 ms",
            },
            {
                "severity": "info", "code": "S048", "name": "default-client-id", "client": "rdkafka", "findings": 1,
                "blame": "client", "hint": hints["S048"], "got": "rdkafka", "connection_id": "n-1-1",
                "message": "client id rdkafka is a library's default: 1 connections from 1 hosts use it",
            },
        ],
    )  # fmt: skip


def test_every_offline_rule_has_a_function() -> None:
    assert {rule.code for rule in FLEET_RULES} == {rule.rule.code for rule in fleet_rules()}


def test_rule_function_must_have_the_name_of_its_rule() -> None:
    from kproxy.spark.rules import rule

    with pytest.raises(ValueError, match="S036"):
        rule("S036", hint="")(lambda lines: lines)


def test_captures_break_only_the_default_client_id_rule(captured: DataFrame) -> None:
    requests = captured.where("kind = 'request' and client_id is not null").collect()
    defaults = {row["client_id"] for row in requests} & {"rdkafka", "sarama", "kgo", "kafkajs", "producer-1"}
    assert {(row["code"], row["client"]) for row in rules(captured).collect()} == {
        ("S048", default) for default in defaults
    }
