"""Validation of refused requests: violations are named, and requests that Kafka accepts have none."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors import schemas
from dissectors.refusals.validation import VALIDATIONS, violations
from dissectors.schemas.codes import Error
from kproxy.trace.lines import Detail, RequestLine
from tests.kproxy.capture_results import DATA, lines_of

CONSUMER_JOIN = {
    "group_id": "g", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None,
    "rebalance_timeout_ms": 300_000, "subscribed_topic_names": ["orders"], "subscribed_topic_regex": None,
    "topic_partitions": [],
}  # fmt: skip
STREAMS_JOIN = {
    "group_id": "g", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None,
    "rebalance_timeout_ms": 1, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "topology": {},
}  # fmt: skip
SHARE_JOIN = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
TOPIC = {"name": "orders", "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
REPLICAS = [{"partition_index": 0, "broker_ids": [1, 2]}, {"partition_index": 1, "broker_ids": [2, 1]}]
TOPIC_WITH_REPLICAS = {**TOPIC, "assignments": REPLICAS}


def share_acknowledge_body(epoch: int, *batches: tuple[int, int, list[int]], **fields: Any) -> dict[str, Any]:
    rows = [{"first_offset": first, "last_offset": last, "acknowledge_types": types} for first, last, types in batches]
    partitions = [{"partition_index": 0, "acknowledgement_batches": rows}]
    topics = [{"topic_id": "t", "partitions": partitions}]
    return {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "topics": topics, **fields}


def offsets_body(*partitions: int) -> dict[str, Any]:
    return {"topics": [{"name": "orders", "partitions": [{"partition_index": partition} for partition in partitions]}]}


REFUSED = [
    ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "rebalance_timeout_ms": -1}, 1, 42, "rebalance_timeout_ms is -1"),
    (
        "ConsumerGroupHeartbeat",
        {**CONSUMER_JOIN, "subscribed_topic_names": None},
        1,
        42,
        "subscribed_topic_names and subscribed_topic_regex are null",
    ),
    ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "topic_partitions": None}, 0, 42, "topic_partitions is null"),
    (
        "ConsumerGroupHeartbeat",
        {**CONSUMER_JOIN, "topic_partitions": [{}]},
        0,
        42,
        "topic_partitions is not empty (1 topics)",
    ),
    ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "member_id": ""}, 1, 42, "member_id is empty"),
    ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "member_id": " ", "member_epoch": 3}, 0, 42, "member_id is empty"),
    ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "group_id": ""}, 1, 42, "group_id is ''"),
    (
        "ConsumerGroupHeartbeat",
        {**CONSUMER_JOIN, "member_epoch": -2},
        1,
        42,
        "member_epoch is -2, but instance_id is null",
    ),
    ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "member_epoch": -3}, 1, 42, "member_epoch is -3"),
    ("ShareGroupHeartbeat", {**SHARE_JOIN, "subscribed_topic_names": None}, 1, 42, "subscribed_topic_names is null"),
    ("ShareGroupHeartbeat", {**SHARE_JOIN, "member_id": ""}, 1, 42, "member_id is empty"),
    ("ShareGroupHeartbeat", {**SHARE_JOIN, "member_epoch": -2}, 1, 42, "member_epoch is -2"),
    ("StreamsGroupHeartbeat", {**STREAMS_JOIN, "member_id": ""}, 0, 42, "member_id is empty"),
    ("StreamsGroupHeartbeat", {**STREAMS_JOIN, "topology": None}, 0, 42, "topology is null"),
    ("StreamsGroupHeartbeat", {**STREAMS_JOIN, "active_tasks": None}, 0, 42, "active_tasks is null"),
    ("StreamsGroupHeartbeat", {**STREAMS_JOIN, "rebalance_timeout_ms": -1}, 0, 42, "rebalance_timeout_ms is -1"),
    (
        "ShareFetch",
        share_acknowledge_body(0, (0, 9, [1])),
        1,
        42,
        "share_session_epoch is 0, but the request acknowledges",
    ),
    ("ShareFetch", share_acknowledge_body(1, (9, 0, [1])), 1, 42, "first_offset 9 is above last_offset 0"),
    (
        "ShareFetch",
        share_acknowledge_body(1, (5, 9, [1]), (0, 3, [1])),
        1,
        42,
        "first_offset 0 is below the previous 9",
    ),
    ("ShareAcknowledge", share_acknowledge_body(1, (0, 9, [])), 1, 42, "acknowledge_types of 0-9 is empty"),
    (
        "ShareAcknowledge",
        share_acknowledge_body(1, (0, 9, [1, 2])),
        1,
        42,
        "0-9 has 2 acknowledge_types for 10 records",
    ),
    ("ShareAcknowledge", share_acknowledge_body(1, (0, 0, [4])), 1, 42, "acknowledge type 4 is invalid"),
    ("ShareAcknowledge", share_acknowledge_body(1, (0, 0, [4])), 2, 42, "type 4 (renew) needs is_renew_ack"),
    (
        "ShareAcknowledge",
        share_acknowledge_body(0),
        1,
        123,
        "share_session_epoch is 0, with which ShareAcknowledge cannot",
    ),
    ("ShareFetch", {**share_acknowledge_body(1), "member_id": ""}, 1, 42, "member_id is ''"),
    (
        "CreateTopics",
        {"topics": [{**TOPIC_WITH_REPLICAS, "num_partitions": 2}]},
        5,
        42,
        "num_partitions is 2, although assignments",
    ),
    (
        "CreateTopics",
        {"topics": [{**TOPIC_WITH_REPLICAS, "replication_factor": 1}]},
        5,
        42,
        "replication_factor is 1, although",
    ),
    ("CreateTopics", {"topics": [TOPIC, TOPIC]}, 5, 42, "topic 'orders' is in the request 2 times"),
    ("CreateTopics", {"topics": [{**TOPIC, "num_partitions": 0}]}, 5, 37, "num_partitions is 0"),
    ("CreateTopics", {"topics": [{**TOPIC, "replication_factor": -2}]}, 5, 38, "replication_factor is -2"),
    ("CreateTopics", {"topics": [{**TOPIC, "name": "a b"}]}, 5, 17, "the name is 'a b'"),
    ("CreateTopics", {"topics": [{**TOPIC, "name": "a" * 250}]}, 5, 17, "the name has 250 characters"),
    ("CreateTopics", {"topics": [{**TOPIC, "assignments": REPLICAS[1:]}]}, 5, 39, "assignments name the partitions 1"),
    (
        "CreateTopics",
        {"topics": [{**TOPIC, "assignments": [{"partition_index": 0, "broker_ids": [1, 1]}]}]},
        5,
        39,
        "partition 0 has a broker twice",
    ),
    ("CreatePartitions", {"topics": [{"name": "orders", "count": 0}]}, 3, 37, "count is 0"),
    ("DeleteTopics", {"topic_names": ["a", "a"]}, 5, 42, "topic 'a' is in the request 2 times"),
    ("DeleteTopics", {"topics": [{"name": "a", "topic_id": "sDVOSXI9S8OVHyyWkfyUlg"}]}, 6, 42, "name and topic_id"),
    ("Metadata", {"topics": [{"name": ".."}]}, 9, 17, "the name is '..'"),
    ("Metadata", {"topics": [{"name": None}]}, 10, 42, "the name of a topic is null"),
    (
        "AlterConfigs",
        {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}] * 2},
        1,
        42,
        "resource 't' is in the request 2 times",
    ),
    (
        "IncrementalAlterConfigs",
        {"resources": [{"resource_type": 2, "resource_name": "t", "configs": [{"name": "k"}, {"name": "k"}]}]},
        1,
        42,
        "config 'k' is set 2 times",
    ),
    ("ListOffsets", offsets_body(0, 1, 0), 7, 42, "partition orders[0] is in the request 2 times"),
    ("Produce", {"acks": 2}, 9, 21, "acks is 2"),
    ("Produce", {"acks": 1, "transactional_id": "t"}, 9, 42, "acks is 1 although transactional_id is set"),
    ("InitProducerId", {"transactional_id": ""}, 4, 42, "transactional_id is empty"),
    (
        "InitProducerId",
        {"transactional_id": "t", "producer_id": 7, "producer_epoch": -1},
        4,
        42,
        "producer_id is 7, but producer_epoch is -1",
    ),
    ("InitProducerId", {"transactional_id": "t", "transaction_timeout_ms": 0}, 4, 50, "transaction_timeout_ms is 0"),
    ("FindCoordinator", {"key": "", "key_type": 1}, 3, 42, "the transactional id is empty"),
    ("FindCoordinator", {"coordinator_keys": [""], "key_type": 0}, 4, 24, "the group id is empty"),
    ("FindCoordinator", {"coordinator_keys": ["g:t"], "key_type": 2}, 6, 42, "the share key 'g:t'"),
    ("FindCoordinator", {"key": "g", "key_type": 7}, 3, 42, "key_type is 7"),
    ("JoinGroup", {"group_id": "", "protocol_type": "consumer", "protocols": [{}]}, 5, 24, "group_id is empty"),
    ("JoinGroup", {"group_id": "g", "protocol_type": "", "protocols": [{}]}, 5, 23, "protocol_type is empty"),
    ("JoinGroup", {"group_id": "g", "protocol_type": "consumer", "protocols": []}, 5, 23, "protocols is empty"),
]


@pytest.mark.parametrize(("api", "body", "version", "code", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_violation_is_named_for_each_refused_request(
    api: str, body: dict[str, Any], version: int, code: int, text: str
) -> None:
    found_violations = violations(api, body, version, code)
    assert [violation for violation in found_violations if text in violation.text], found_violations
    assert all(violation.change and not violation.change.endswith(".") for violation in found_violations)
    assert not violations(api, body, version, Error.COORDINATOR_NOT_AVAILABLE), "another error has another reason"


@pytest.mark.parametrize(
    ("api", "body", "version"),
    [
        ("ConsumerGroupHeartbeat", CONSUMER_JOIN, 1),
        (
            "ConsumerGroupHeartbeat",
            {**CONSUMER_JOIN, "member_epoch": 7, "topic_partitions": None, "rebalance_timeout_ms": -1},
            1,
        ),
        ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "member_id": ""}, 0),
        (
            "ConsumerGroupHeartbeat",
            {**CONSUMER_JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": "o.*"},
            1,
        ),
        ("ConsumerGroupHeartbeat", {**CONSUMER_JOIN, "member_epoch": -2, "instance_id": "one"}, 1),
        ("ShareGroupHeartbeat", SHARE_JOIN, 1),
        ("StreamsGroupHeartbeat", STREAMS_JOIN, 0),
        ("ShareFetch", share_acknowledge_body(0), 1),
        ("ShareFetch", share_acknowledge_body(1, (0, 9, [1]), (10, 12, [1, 0, 3])), 1),
        ("ShareAcknowledge", share_acknowledge_body(-1, (0, 0, [4]), is_renew_ack=True), 2),
        ("CreateTopics", {"topics": [TOPIC, {**TOPIC_WITH_REPLICAS, "name": "payments"}]}, 5),
        ("CreatePartitions", {"topics": [{"name": "orders", "count": 3}]}, 3),
        ("ListOffsets", offsets_body(0, 1), 7),
        ("FindCoordinator", {"coordinator_keys": ["g:sDVOSXI9S8OVHyyWkfyUlg:0"], "key_type": 2}, 6),
        ("InitProducerId", {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}, 4),
    ],
    ids=lambda value: str(value)[:40],
)
def test_accepted_requests_have_no_violations(api: str, body: dict[str, Any], version: int) -> None:
    assert not [violation for check in VALIDATIONS[api] for violation in check(body, version)]


@pytest.mark.slow
def test_real_client_requests_have_no_violations() -> None:
    checked = 0
    for path in sorted((DATA / "traffic").glob("*.pcap.gz")):
        for line in lines_of(path, detail=Detail.FULL):
            if isinstance(line, RequestLine) and line.api in VALIDATIONS and line.body is not None:
                checked += 1
                found_violations = [
                    violation for check in VALIDATIONS[line.api] for violation in check(line.body, line.api_version)
                ]
                assert not found_violations, (path.name, line.api)
    assert checked > 100


def test_every_validated_api_exists() -> None:
    assert set(VALIDATIONS) <= {api.name for api in schemas.apis()}


def test_number_of_violations_is_limited() -> None:
    topics = [{**TOPIC, "name": str(index), "num_partitions": 0} for index in range(100_000)]
    assert len(violations("CreateTopics", {"topics": topics}, 5, Error.INVALID_PARTITIONS)) <= 100
