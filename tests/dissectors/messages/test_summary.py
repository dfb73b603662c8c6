from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import schemas
from dissectors.hexdump import unhex
from dissectors.messages.message import Message, api_layouts, read_request, read_response
from dissectors.messages.summary import (
    ErrorField,
    TopicFacts,
    errors,
    generation_id,
    group_id,
    topics,
    transactional_id,
)
from dissectors.records import encode
from dissectors.wire.layout import Layout
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
    00 00 00 03               # claims three records
""")


def read_request_of(api: str, version: int, body: dict[str, Any]) -> Message:
    return read_request(request(api, version, body))


def read_response_of(api: str, version: int, body: dict[str, Any]) -> Message:
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    return read_response(response(api, version, body), api_entry.key, version)


def test_topics_of_a_produce_request_have_record_counts_and_sizes() -> None:
    body = {
        "topic_data": [
            {
                "name": "orders",
                "partition_data": [{"index": 0, "records": BATCH}, {"index": 4, "records": BATCH + BATCH}],
            },
            {"name": "audit", "partition_data": [{"index": 1, "records": None}]},
        ]
    }
    assert topics(read_request_of("Produce", 9, body)) == [
        TopicFacts("orders", None, [0, 4], 183, 9, 3, ["none"], [61, 122]),
        TopicFacts("audit", None, [1], 0, 0, 0, [], [0]),
    ]


def test_topic_may_be_given_by_its_id_alone() -> None:
    body = {"responses": [{"topic_id": TOPIC_ID, "partitions": [{"partition_index": 2, "records": BATCH}]}]}
    assert topics(read_response_of("Fetch", 13, body)) == [
        TopicFacts(None, TOPIC_ID, [2], 61, 3, 1, ["none"], [61], 0, [0], [])
    ]


def test_topics_without_record_data_have_no_byte_count() -> None:
    assert topics(read_request_of("Metadata", 12, {"topics": [{"name": "orders", "topic_id": TOPIC_ID}]})) == [
        TopicFacts("orders", TOPIC_ID, [], None, None)
    ]
    assert topics(read_request_of("Metadata", 12, {"topics": None})) == []


def test_forgotten_topics_of_a_fetch_are_included() -> None:
    body = {
        "topics": [{"topic": "orders", "partitions": [{"partition": 3}]}],
        "forgotten_topics_data": [{"topic": "audit", "partitions": [5, 6]}],
    }
    assert topics(read_request_of("Fetch", 11, body)) == [
        TopicFacts("orders", None, [3], None, None),
        TopicFacts("audit", None, [5, 6], None, None),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            read_request_of("DeleteTopics", 5, {"topic_names": ["orders", "audit"]}),
            [TopicFacts("orders", None, [], None, None), TopicFacts("audit", None, [], None, None)],
            id="bare names",
        ),
        pytest.param(
            read_request_of(
                "LeaderAndIsr",
                1,
                {
                    "ungrouped_partition_states": [
                        {"topic_name": "orders", "partition_index": 0},
                        {"topic_name": "orders", "partition_index": 1},
                    ]
                },
            ),
            [TopicFacts("orders", None, [0], None, None), TopicFacts("orders", None, [1], None, None)],
            id="a row for each partition",
        ),
        pytest.param(
            read_request_of(
                "AlterReplicaLogDirs",
                2,
                {"dirs": [{"path": "/d", "topics": [{"name": "orders", "partitions": [7]}]}]},
            ),
            [TopicFacts("orders", None, [7], None, None)],
            id="below other structs",
        ),
        pytest.param(
            read_request_of("DescribeTopicPartitions", 0, {"cursor": {"topic_name": "orders", "partition_index": 9}}),
            [TopicFacts("orders", None, [9], None, None)],
            id="in a struct that may be null",
        ),
        pytest.param(read_request_of("DescribeTopicPartitions", 0, {"cursor": None}), [], id="null struct"),
        pytest.param(
            read_request_of(
                "ConsumerGroupHeartbeat", 0, {"subscribed_topic_names": ["orders"], "topic_partitions": None}
            ),
            [TopicFacts("orders", None, [], None, None)],
            id="subscription",
        ),
        pytest.param(
            read_request_of("CreatePartitions", 3, {"topics": [{"name": "orders", "count": 3, "assignments": None}]}),
            [TopicFacts("orders", None, [], None, None)],
            id="assignments that name no partition",
        ),
        pytest.param(read_request_of("Heartbeat", 4, {}), [], id="no topics"),
        pytest.param(read_request(unhex("0000000a 03e7 0000 00000007 ffff")), [], id="opaque"),
    ],
)
def test_topics_are_found_in_all_kinds_of_fields(message: Message, expected: list[TopicFacts]) -> None:
    assert message.error is None
    assert topics(message) == expected


def test_truncated_message_has_the_topics_that_could_be_read() -> None:
    body = {"topics": [{"topic": "orders", "partitions": [{"partition": 3}, {"partition": 4}]}]}
    frame = request("Fetch", 4, body)
    assert topics(read_request(frame[:-16])) == [TopicFacts("orders", None, [3], None, None)]
    assert topics(read_request(frame[:-35])) == [TopicFacts("orders", None, [], None, None)]


def test_each_codec_of_a_topic_is_named_once_in_wire_order() -> None:
    def records(*codecs: str) -> bytes:
        return encode([{"compression": codec, "records": [{"value": b"v"}]} for codec in codecs])

    partitions = [{"index": 0, "records": records("zstd", "none")}, {"index": 1, "records": records("none", "gzip")}]
    [topic] = topics(read_request_of("Produce", 9, {"topic_data": [{"name": "orders", "partition_data": partitions}]}))
    assert (topic.compression, topic.batches, topic.lag) == (["zstd", "none", "gzip"], 4, None)


def encode_batch(offset: int, count: int) -> bytes:
    return encode([{"base_offset": offset, "records": [{"value": b"v"}] * count}])


@pytest.mark.parametrize(
    ("row", "lag"),
    [
        pytest.param({"high_watermark": 10, "records": encode_batch(3, 2)}, 5, id="from the last batch on"),
        pytest.param(
            {"high_watermark": 10, "records": encode_batch(3, 2) + encode_batch(5, 4)[:-1]}, 5, id="last batch cut"
        ),
        pytest.param({"high_watermark": 10, "records": encode_batch(3, 2)[:-1]}, 6, id="nothing whole"),
        pytest.param({"high_watermark": 10, "records": b""}, 6, id="nothing"),
        pytest.param({"high_watermark": 10, "records": None}, 6, id="null"),
        pytest.param({"high_watermark": 10, "last_stable_offset": 4, "records": b""}, 6, id="open transactions"),
        pytest.param({"high_watermark": 4, "records": b""}, 0, id="at the end"),
        pytest.param({"high_watermark": 3, "records": b""}, 0, id="a follower is ahead of the high watermark"),
        pytest.param({"high_watermark": -1, "records": b""}, None, id="not known"),
        pytest.param({"high_watermark": 10, "error_code": 3, "records": b""}, None, id="refused"),
        pytest.param({"high_watermark": 10, "partition_index": 9, "records": b""}, None, id="not asked for, no record"),
        pytest.param(
            {"high_watermark": 10, "partition_index": 9, "records": encode_batch(3, 2)}, 5, id="not asked for now"
        ),
        pytest.param({"high_watermark": 10, "records": encode_batch(-7, 2)}, None, id="no offset of a log"),
    ],
)
@pytest.mark.parametrize("version", [0, 4, 11, 12, 13, 18])
def test_lag_is_what_remains_after_a_fetch(version: int, row: dict[str, Any], lag: int | None) -> None:
    name = {"topic": "orders"} if version < 13 else {"topic_id": TOPIC_ID}
    fetch = read_request_of(
        "Fetch", version, {"topics": [name | {"partitions": [{"partition": 2, "fetch_offset": 4}]}]}
    )
    row = {"partition_index": 2} | row
    if version < 4:
        row.pop("last_stable_offset", None)
    [topic] = topics(read_response_of("Fetch", version, {"responses": [name | {"partitions": [row]}]}), fetch)
    assert topic.lag == lag


def test_lag_is_summed_over_the_partitions_that_have_one() -> None:
    fetch = read_request_of(
        "Fetch", 11, {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    )
    partitions = [
        {"partition_index": 0, "high_watermark": 8},
        {"partition_index": 1, "high_watermark": 20, "records": encode_batch(0, 10)},
        {"partition_index": 2, "high_watermark": 100},
    ]
    body = {"responses": [{"topic": "t", "partitions": partitions}, {"topic": "u", "partitions": partitions[:1]}]}
    assert [topic.lag for topic in topics(read_response_of("Fetch", 11, body), fetch)] == [13, None]
    assert [topic.lag for topic in topics(read_response_of("Fetch", 11, body))] == [10, None]
    assert topics(read_response_of("Fetch", 11, body), read_request(request("Fetch", 11, {})[:-2]))[0].lag == 10


def test_lag_is_limited_to_an_int64() -> None:
    partition = {"high_watermark": 2**63 - 1, "records": encode_batch(0, 1)}
    body = {"responses": [{"topic": "t", "partitions": [partition | {"partition_index": index} for index in range(3)]}]}
    assert topics(read_response_of("Fetch", 11, body))[0].lag == 2**63 - 1


def test_share_fetch_has_no_lag() -> None:
    partition = {"partition_index": 2, "records": BATCH}
    message = read_response_of("ShareFetch", 1, {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]})
    assert topics(message) == [TopicFacts(None, TOPIC_ID, [2], 61, 3, 1, ["none"], [61], None, [0], [])]


def test_records_of_a_partition_without_an_index_are_counted() -> None:
    message = read_response_of("Fetch", 4, {"responses": [{"topic": "t", "partitions": [{"high_watermark": 1}] * 2}]})
    first, second = message.body["responses"][0]["partitions"]
    del second["partition_index"]
    second["records"] = BATCH
    assert topics(message) == [TopicFacts("t", None, [first["partition_index"]], 61, 3, 1, ["none"], [0], None, [], [])]


def fetch_facts(*batches: bytes, at_ms: int = 1_000_500) -> TopicFacts:
    partitions = [
        {"partition_index": number, "high_watermark": 9, "records": batch} for number, batch in enumerate(batches)
    ]
    message = read_response_of("Fetch", 4, {"responses": [{"topic": "t", "partitions": partitions}]})
    [topic] = topics(message, at=at_ms * 1_000_000 + 999_999)
    return topic


def batch(offset: int, *timestamps: int, **more: Any) -> bytes:
    records = [{"value": b"v", "timestamp": timestamp} for timestamp in timestamps]
    return encode([{"base_offset": offset, "records": records, **more}])


def test_first_record_of_each_partition_has_an_offset_and_an_age() -> None:
    two_batches = batch(40, 1_000_000, 1_000_400) + batch(42, 1_000_499)
    facts = fetch_facts(two_batches, b"", batch(7, 1_000_501))
    assert facts.offsets == [40, None, 7]
    assert facts.ages_ms == [500, None, -1]  # the producer's clock is ahead
    assert not facts.append_time


def test_age_with_append_time_is_relative_to_the_broker() -> None:
    data = bytearray(batch(40, 900_000))
    data[22] |= 8  # the timestamp type
    data[35:43] = (1_000_300).to_bytes(8, "big")  # the broker sets the maximum only
    facts = fetch_facts(bytes(data))
    assert (facts.offsets, facts.ages_ms, facts.append_time) == ([40], [200], True)


@pytest.mark.parametrize("attributes", [0x20, 0x40])
def test_batches_with_markers_or_delete_horizons_have_no_age(attributes: int) -> None:
    data = bytearray(batch(40, 1_000_000))
    data[22] |= attributes
    facts = fetch_facts(bytes(data), batch(7, 1_000_000))
    assert facts.offsets == [40, 7]
    assert facts.ages_ms == [None, 500]


def test_truncated_batch_has_no_offset_and_missing_timestamp_no_age() -> None:
    facts = fetch_facts(batch(40, 1_000_000)[:-1], batch(7, -1))
    assert facts.offsets == [None, 7]
    assert facts.ages_ms == []


def test_requests_have_no_offsets_or_ages() -> None:
    body = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch(0, 1_000_000)}]}]}
    [topic] = topics(read_request_of("Produce", 9, body), at=1)
    assert (topic.offsets, topic.ages_ms) == ((), ())


@given(
    version=st.integers(4, 18),
    partitions=st.lists(
        st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.lists(st.integers(1, 3), max_size=3), st.booleans()),
        max_size=4,
    ),
)
def test_summary_of_any_fetch_matches_its_batches(
    version: int, partitions: list[tuple[int, int, list[int], bool]]
) -> None:
    name = {"topic": "t"} if version < 13 else {"topic_id": TOPIC_ID}
    rows: list[dict[str, Any]] = []
    requested: list[dict[str, Any]] = []
    sizes: list[int] = []
    lag: int | None = None
    for index, (offset, high_watermark, counts, is_requested) in enumerate(partitions):
        records, next_offset = b"", offset
        for count in counts:
            records += encode_batch(next_offset, count)
            next_offset += count
        rows.append({"partition_index": index, "high_watermark": high_watermark, "records": records})
        sizes.append(len(records))
        if is_requested:
            requested.append({"partition": index, "fetch_offset": offset})
        if is_requested or counts:
            lag = (lag or 0) + max(high_watermark - next_offset, 0)
    fetch = read_request_of("Fetch", version, {"topics": [name | {"partitions": requested}]})
    [topic] = topics(read_response_of("Fetch", version, {"responses": [name | {"partitions": rows}]}), fetch)
    assert topic.partition_bytes == sizes
    assert topic.lag == lag
    assert topic.records == sum(sum(counts) for *_, counts, _ in partitions)
    assert topic.batches == sum(len(counts) for *_, counts, _ in partitions)


def test_errors_carry_the_path_of_their_error_code() -> None:
    body = {
        "error_code": 0,
        "responses": [
            {"topic": "a", "partitions": [{"error_code": 0}, {"error_code": 6}]},
            {"topic": "b", "partitions": [{"error_code": -1}]},
        ],
    }
    assert errors(read_response_of("Fetch", 11, body)) == [
        ErrorField("responses[0].partitions[1].error_code", 6, "NOT_LEADER_OR_FOLLOWER"),
        ErrorField("responses[1].partitions[0].error_code", -1, "UNKNOWN_SERVER_ERROR"),
    ]


def test_error_of_the_whole_response_has_a_short_path() -> None:
    assert errors(read_response_of("Heartbeat", 4, {"error_code": 27})) == [
        ErrorField("error_code", 27, "REBALANCE_IN_PROGRESS")
    ]


def test_unknown_error_code_is_named_by_its_number() -> None:
    assert errors(read_response_of("Heartbeat", 4, {"error_code": 9999})) == [
        ErrorField("error_code", 9999, "UNKNOWN_ERROR_9999")
    ]


def test_errors_in_fields_with_other_names_are_found() -> None:
    body = {"topics": [{"name": "t", "topic_config_error_code": 29}]}
    assert errors(read_response_of("CreateTopics", 7, body)) == [
        ErrorField("topics[0].topic_config_error_code", 29, "TOPIC_AUTHORIZATION_FAILED")
    ]


def test_errors_are_found_only_in_responses() -> None:
    assert errors(read_request_of("ControlledShutdown", 0, {})) == []
    assert errors(read_response(unhex("00000008 00000007 cafecafe"), 12, 99)) == []
    assert errors(read_response_of("ConsumerGroupHeartbeat", 0, {"assignment": None})) == []


@pytest.mark.parametrize(
    ("message", "group"),
    [
        (read_request_of("Heartbeat", 4, {"group_id": "g"}), "g"),
        (read_request_of("OffsetFetch", 8, {"groups": [{"group_id": "g"}]}), "g"),
        (read_request_of("OffsetFetch", 8, {"groups": [{"group_id": "g"}, {"group_id": "h"}]}), None),
        (read_request_of("DescribeGroups", 5, {"groups": ["g"]}), "g"),
        (read_request_of("DeleteGroups", 2, {"groups_names": ["g"]}), "g"),
        (read_request_of("ConsumerGroupDescribe", 0, {"group_ids": ["g"]}), "g"),
        (read_request_of("FindCoordinator", 0, {"key": "g"}), "g"),
        (read_request_of("FindCoordinator", 3, {"key": "g", "key_type": 0}), "g"),
        (read_request_of("FindCoordinator", 3, {"key": "t", "key_type": 1}), None),
        (read_request_of("FindCoordinator", 4, {"coordinator_keys": ["g"], "key_type": 0}), "g"),
        (read_request_of("FindCoordinator", 4, {"coordinator_keys": ["g", "h"], "key_type": 0}), None),
        (read_response_of("FindCoordinator", 4, {"coordinators": [{"key": "g"}]}), None),
        (read_request_of("Metadata", 12, {}), None),
    ],
)
def test_message_has_a_group_id_if_it_names_exactly_one(message: Message, group: str | None) -> None:
    assert group_id(message) == group


@pytest.mark.parametrize(
    ("message", "transaction"),
    [
        (read_request_of("InitProducerId", 4, {"transactional_id": "t"}), "t"),
        (read_request_of("InitProducerId", 4, {"transactional_id": None}), None),
        (read_request_of("AddPartitionsToTxn", 3, {"v3_and_below_transactional_id": "t"}), "t"),
        (read_request_of("AddPartitionsToTxn", 4, {"transactions": [{"transactional_id": "t"}]}), "t"),
        (read_request_of("AddPartitionsToTxn", 4, {"transactions": [{"transactional_id": "t"}] * 2}), None),
        (read_request_of("FindCoordinator", 3, {"key": "t", "key_type": 1}), "t"),
        (read_request_of("FindCoordinator", 3, {"key": "g", "key_type": 0}), None),
        (read_request_of("Metadata", 12, {}), None),
    ],
)
def test_message_has_a_transactional_id_if_it_names_exactly_one(message: Message, transaction: str | None) -> None:
    assert transactional_id(message) == transaction


_EPOCHS = {"generation_id", "generation_id_or_member_epoch", "member_epoch"}


def _body_with_generation(layout: Layout, value: int) -> dict[str, Any] | None:
    """Return a body of one group with that generation, or None if the layout has no field for it."""
    for field in layout.fields:
        if field.name in _EPOCHS:
            return {field.name: value}
        if field.name == "groups" and field.struct and (row := _body_with_generation(field.struct, value)):
            return {"groups": [row]}
    return None


def test_generation_is_found_in_every_message_that_has_one() -> None:
    versions_by_message: dict[str, list[int]] = {}
    for api in schemas.apis():
        for version in range(api.min_version, api.max_version + 1):
            layouts = api_layouts(api.key, version)
            assert layouts is not None
            for kind, layout, read_message in (
                ("request", layouts.request, read_request_of),
                ("response", layouts.response, read_response_of),
            ):
                body = _body_with_generation(layout, 41)
                assert generation_id(read_message(api.name, version, body or {})) == (41 if body else None)
                if body:
                    versions_by_message.setdefault(f"{api.name} {kind}", []).append(version)
    assert {name: (versions[0], versions[-1]) for name, versions in versions_by_message.items()} == {
        "OffsetCommit request": (1, 10),
        "OffsetFetch request": (9, 10),
        "JoinGroup response": (0, 9),
        "Heartbeat request": (0, 4),
        "SyncGroup request": (0, 5),
        "TxnOffsetCommit request": (3, 6),
        "ConsumerGroupHeartbeat request": (0, 1),
        "ConsumerGroupHeartbeat response": (0, 1),
        "ShareGroupHeartbeat request": (0, 1),
        "ShareGroupHeartbeat response": (0, 1),
        "StreamsGroupHeartbeat request": (0, 1),
        "StreamsGroupHeartbeat response": (0, 1),
    }


def test_generation_is_read_as_sent_if_there_is_a_single_group() -> None:
    several = {"groups": [{"group_id": "g", "member_epoch": 3}, {"group_id": "h", "member_epoch": 3}]}
    assert generation_id(read_request_of("OffsetFetch", 9, several)) is None
    assert generation_id(read_request_of("OffsetFetch", 9, {"groups": []})) is None
    assert generation_id(read_request_of("OffsetCommit", 8, {"generation_id_or_member_epoch": -1})) == -1
    assert generation_id(read_request(request("SyncGroup", 3, {"group_id": "g"})[:-10])) is None
    assert generation_id(read_request(unhex("0000000a 03e7 0000 00000007 ffff"))) is None
