from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dissectors import schemas
from kproxy.spark.jobs.audit import ADMINISTRATIVE, DENIALS, audit
from kproxy.spark.jobs.errors import errors
from kproxy.spark.jobs.throughput import throughput
from kproxy.trace.lines import ErrorEntry, TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, topics_of
from tests.kproxy.spark.sample_lines import moment, request, response, table

ORDERS, CARTS = TopicEntry("orders"), TopicEntry("carts")
DENIED = ErrorEntry("topics[1].error_code", 29, "TOPIC_AUTHORIZATION_FAILED")


def test_administration_and_denials_are_reported_by_principal(spark: SparkSession) -> None:
    eve, ops = {"principal": "User:eve"}, {"principal": "User:ops", "client_id": None}
    lines = table(
        spark,
        request("DeleteTopics", at=1, topics=[ORDERS, CARTS], **ops),
        response("DeleteTopics", at=2, topics=[ORDERS, CARTS], errors=[DENIED], **ops),
        request("Fetch", at=3, topics=[ORDERS], **eve),
        response("Fetch", at=4, topics=[ORDERS], errors=[ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")], **eve),
        response("Fetch", at=5, topics=[ORDERS], client_id="other", client="10.0.0.8:1", **eve),
        request("OffsetCommit", at=6, group_id="g", topics=[ORDERS]),
        request("ApiVersions", at=7, **eve), request("Metadata", at=7, topics=[ORDERS], **eve),
    )  # fmt: skip
    times = spark.createDataFrame([(moment(second),) for second in range(8)], "at string")
    timestamps = [row[0] for row in times.selectExpr("timestamp(at)").collect()]
    zeros = {"requests": 0, "responses": 0, "failed": 0, "denied": 0}
    deletes = {
        **zeros, "principal": "User:ops", "api": "DeleteTopics", "administers": True, "requests": 1, "responses": 1,
        "clients": ["10.0.0.9"], "hosts": ["10.0.0.9"], "first_at": timestamps[1], "last_at": timestamps[2],
    }  # fmt: skip
    assert_rows(
        audit(lines),
        [
            {**deletes, "topic": "carts", "failed": 1, "denied": 1, "error": DENIED.name},
            {**deletes, "topic": "orders"},
            {**zeros, "principal": "User:eve", "api": "Fetch", "administers": False, "topic": "orders", "requests": 1,
             "responses": 2, "failed": 1, "error": "NOT_LEADER_OR_FOLLOWER", "clients": ["app", "other"],
             "hosts": ["10.0.0.8", "10.0.0.9"], "first_at": timestamps[3], "last_at": timestamps[5]},
            {**zeros, "api": "OffsetCommit", "administers": False, "topic": "orders", "group_id": "g", "requests": 1,
             "clients": ["app"], "hosts": ["10.0.0.9"], "first_at": timestamps[6], "last_at": timestamps[6]},
        ],
    )  # fmt: skip
    by_principal = {row["value"]: row["requests"] for row in throughput(lines).where("by = 'principal'").collect()}
    assert by_principal == {"User:eve": 3, "User:ops": 1}
    error_rows = errors(lines).where("by = 'principal'").collect()
    assert {(row["value"], row["error"], row["responses"], row["share"]) for row in error_rows} == {
        ("User:eve", "NOT_LEADER_OR_FOLLOWER", 1, 0.5), ("User:ops", DENIED.name, 1, 1.0),
    }  # fmt: skip


@pytest.mark.parametrize("api", ADMINISTRATIVE)
def test_administrative_apis_exist_in_kafka(api: str) -> None:
    assert schemas.api_by_name(api) is not None


def test_denials_are_kafkas_authorization_errors() -> None:
    assert len(DENIALS) == 5
    assert {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"} < set(DENIALS)


def test_audit_matches_plain_python_for_real_clients(real: DataFrame) -> None:
    unaudited_apis = {
        "Metadata", "FindCoordinator", "ApiVersions", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions",
        "PushTelemetry",
    }  # fmt: skip
    counts: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    clients: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for line in real.collect():
        if line["kind"] not in ("request", "response") or line["api"] is None or line["api"] in unaudited_apis:
            continue
        for topic in {name for name, _ in topics_of(line)} or {None}:
            key = line["principal"], line["api"], topic, line["group_id"]
            counts[key]["requests"] += line["kind"] == "request"
            counts[key]["responses"] += line["kind"] == "response" and line["not_decoded"] is None
            clients[key].add(client_of(line))
    rows = audit(real).collect()
    assert len(rows) == len(counts) > 20
    for row in rows:
        key = row["principal"], row["api"], row["topic"], row["group_id"]
        assert (row["requests"], row["responses"]) == (counts[key]["requests"], counts[key]["responses"]), key
        assert row["clients"] == sorted(clients[key])[:10]
