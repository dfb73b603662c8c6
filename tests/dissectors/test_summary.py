from typing import Any

import pytest

from dissectors import schemas
from dissectors.hexdump import unhex
from dissectors.message import Message, read_request, read_response
from dissectors.summary import ErrorSeen, Topic, errors, group_id, topics, transactional_id
from tests.kproxy.frames import request, response

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
BATCH = unhex("""
    00 00 00 00 00 00 00 00   # base offset
    00 00 00 31               # batch length: 49, no records
    00 00 00 00               # partition leader epoch
    02                        # magic
    00 00 00 00               # crc
    00 00                     # attributes
    00 00 00 02               # last offset delta
    00 00 00 00 00 00 00 00   # base timestamp
    00 00 00 00 00 00 00 00   # max timestamp
    ff ff ff ff ff ff ff ff   # producer id
    ff ff                     # producer epoch
    ff ff ff ff               # base sequence
    00 00 00 03               # three records, it claims
""")


def asked(api: str, version: int, body: dict[str, Any]) -> Message:
    return read_request(request(api, version, body))


def answered(api: str, version: int, body: dict[str, Any]) -> Message:
    found = schemas.api_by_name(api)
    assert found is not None
    return read_response(response(api, version, body), found.key, version)


def test_the_topics_of_a_produce_come_with_their_records() -> None:
    body = {
        "topic_data": [
            {
                "name": "orders",
                "partition_data": [{"index": 0, "records": BATCH}, {"index": 4, "records": BATCH + BATCH}],
            },
            {"name": "audit", "partition_data": [{"index": 1, "records": None}]},
        ]
    }
    assert topics(asked("Produce", 9, body)) == [
        Topic("orders", None, [0, 4], 183, 9),
        Topic("audit", None, [1], 0, 0),
    ]


def test_a_topic_may_be_named_by_its_id_alone() -> None:
    body = {"responses": [{"topic_id": TOPIC_ID, "partitions": [{"partition_index": 2, "records": BATCH}]}]}
    assert topics(answered("Fetch", 13, body)) == [Topic(None, TOPIC_ID, [2], 61, 3)]


def test_topics_without_record_data_have_no_bytes() -> None:
    assert topics(asked("Metadata", 12, {"topics": [{"name": "orders", "topic_id": TOPIC_ID}]})) == [
        Topic("orders", TOPIC_ID, [], None, None)
    ]
    assert topics(asked("Metadata", 12, {"topics": None})) == []


def test_the_topics_that_a_fetch_forgets_are_named_too() -> None:
    body = {
        "topics": [{"topic": "orders", "partitions": [{"partition": 3}]}],
        "forgotten_topics_data": [{"topic": "audit", "partitions": [5, 6]}],
    }
    assert topics(asked("Fetch", 11, body)) == [
        Topic("orders", None, [3], None, None),
        Topic("audit", None, [5, 6], None, None),
    ]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        pytest.param(
            asked("DeleteTopics", 5, {"topic_names": ["orders", "audit"]}),
            [Topic("orders", None, [], None, None), Topic("audit", None, [], None, None)],
            id="bare names",
        ),
        pytest.param(
            asked(
                "LeaderAndIsr",
                1,
                {
                    "ungrouped_partition_states": [
                        {"topic_name": "orders", "partition_index": 0},
                        {"topic_name": "orders", "partition_index": 1},
                    ]
                },
            ),
            [Topic("orders", None, [0], None, None), Topic("orders", None, [1], None, None)],
            id="a row for each partition",
        ),
        pytest.param(
            asked(
                "AlterReplicaLogDirs",
                2,
                {"dirs": [{"path": "/d", "topics": [{"name": "orders", "partitions": [7]}]}]},
            ),
            [Topic("orders", None, [7], None, None)],
            id="below other structs",
        ),
        pytest.param(
            asked("DescribeTopicPartitions", 0, {"cursor": {"topic_name": "orders", "partition_index": 9}}),
            [Topic("orders", None, [9], None, None)],
            id="in a struct that may be null",
        ),
        pytest.param(asked("DescribeTopicPartitions", 0, {"cursor": None}), [], id="null struct"),
        pytest.param(
            asked("ConsumerGroupHeartbeat", 0, {"subscribed_topic_names": ["orders"], "topic_partitions": None}),
            [Topic("orders", None, [], None, None)],
            id="subscription",
        ),
        pytest.param(
            asked("CreatePartitions", 3, {"topics": [{"name": "orders", "count": 3, "assignments": None}]}),
            [Topic("orders", None, [], None, None)],
            id="assignments that name no partition",
        ),
        pytest.param(asked("Heartbeat", 4, {}), [], id="no topics"),
        pytest.param(read_request(unhex("0000000a 03e7 0000 00000007 ffff")), [], id="opaque"),
    ],
)
def test_topics_are_found_wherever_they_stand(message: Message, named: list[Topic]) -> None:
    assert message.error is None
    assert topics(message) == named


def test_topics_of_a_message_that_is_cut_off_are_those_that_could_be_read() -> None:
    body = {"topics": [{"topic": "orders", "partitions": [{"partition": 3}, {"partition": 4}]}]}
    frame = request("Fetch", 4, body)
    assert topics(read_request(frame[:-16])) == [Topic("orders", None, [3], None, None)]
    assert topics(read_request(frame[:-35])) == [Topic("orders", None, [], None, None)]


def test_errors_have_the_path_of_their_code() -> None:
    body = {
        "error_code": 0,
        "responses": [
            {"topic": "a", "partitions": [{"error_code": 0}, {"error_code": 6}]},
            {"topic": "b", "partitions": [{"error_code": -1}]},
        ],
    }
    assert errors(answered("Fetch", 11, body)) == [
        ErrorSeen("responses[0].partitions[1].error_code", 6, "NOT_LEADER_OR_FOLLOWER"),
        ErrorSeen("responses[1].partitions[0].error_code", -1, "UNKNOWN_SERVER_ERROR"),
    ]


def test_an_error_of_the_whole_response_has_its_name_alone() -> None:
    assert errors(answered("Heartbeat", 4, {"error_code": 27})) == [
        ErrorSeen("error_code", 27, "REBALANCE_IN_PROGRESS")
    ]


def test_an_error_code_that_nobody_knows_has_its_number() -> None:
    assert errors(answered("Heartbeat", 4, {"error_code": 9999})) == [
        ErrorSeen("error_code", 9999, "UNKNOWN_ERROR_9999")
    ]


def test_errors_in_tags_and_under_other_names_count_too() -> None:
    body = {"topics": [{"name": "t", "topic_config_error_code": 29}]}
    assert errors(answered("CreateTopics", 7, body)) == [
        ErrorSeen("topics[0].topic_config_error_code", 29, "TOPIC_AUTHORIZATION_FAILED")
    ]


def test_errors_are_only_in_responses() -> None:
    assert errors(asked("ControlledShutdown", 0, {})) == []
    assert errors(read_response(unhex("00000008 00000007 cafecafe"), 12, 99)) == []
    assert errors(answered("ConsumerGroupHeartbeat", 0, {"assignment": None})) == []


@pytest.mark.parametrize(
    ("message", "group"),
    [
        (asked("Heartbeat", 4, {"group_id": "g"}), "g"),
        (asked("OffsetFetch", 8, {"groups": [{"group_id": "g"}]}), "g"),
        (asked("OffsetFetch", 8, {"groups": [{"group_id": "g"}, {"group_id": "h"}]}), None),
        (asked("DescribeGroups", 5, {"groups": ["g"]}), "g"),
        (asked("DeleteGroups", 2, {"groups_names": ["g"]}), "g"),
        (asked("ConsumerGroupDescribe", 0, {"group_ids": ["g"]}), "g"),
        (asked("FindCoordinator", 0, {"key": "g"}), "g"),
        (asked("FindCoordinator", 3, {"key": "g", "key_type": 0}), "g"),
        (asked("FindCoordinator", 3, {"key": "t", "key_type": 1}), None),
        (asked("FindCoordinator", 4, {"coordinator_keys": ["g"], "key_type": 0}), "g"),
        (asked("FindCoordinator", 4, {"coordinator_keys": ["g", "h"], "key_type": 0}), None),
        (answered("FindCoordinator", 4, {"coordinators": [{"key": "g"}]}), None),
        (asked("Metadata", 12, {}), None),
    ],
)
def test_a_message_is_about_a_group_if_it_names_just_one(message: Message, group: str | None) -> None:
    assert group_id(message) == group


@pytest.mark.parametrize(
    ("message", "transaction"),
    [
        (asked("InitProducerId", 4, {"transactional_id": "t"}), "t"),
        (asked("InitProducerId", 4, {"transactional_id": None}), None),
        (asked("AddPartitionsToTxn", 3, {"v3_and_below_transactional_id": "t"}), "t"),
        (asked("AddPartitionsToTxn", 4, {"transactions": [{"transactional_id": "t"}]}), "t"),
        (asked("AddPartitionsToTxn", 4, {"transactions": [{"transactional_id": "t"}] * 2}), None),
        (asked("FindCoordinator", 3, {"key": "t", "key_type": 1}), "t"),
        (asked("FindCoordinator", 3, {"key": "g", "key_type": 0}), None),
        (asked("Metadata", 12, {}), None),
    ],
)
def test_a_message_is_about_a_transaction_if_it_names_just_one(message: Message, transaction: str | None) -> None:
    assert transactional_id(message) == transaction
