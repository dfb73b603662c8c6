from typing import Any

import pytest

from dissectors import embedded
from dissectors.hexdump import unhex
from dissectors.records import encode as encode_records
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.embedded.samples import METADATA_ID, PAYLOADS, at, batch, fetched, request, tree

OFFSET_KEY = unhex("00 01  00 01 67  00 01 74  00 00 00 02")  # type 1, group g, topic t, partition 2
OFFSET_VALUE = b"\x00\x03" + encode(
    layout("OffsetCommitValue", 3), {"offset": 42, "leader_epoch": 1, "metadata": "", "commit_timestamp": 5}
)
FEATURE = b"\x01\x0c\x00" + encode(layout("FeatureLevelRecord", 0), {"name": "group.version", "feature_level": 1})


def records_of(topic: str, data: bytes, version: int = 12) -> Any:
    [row] = embedded.expand(fetched(topic, data, version))["responses"]
    return row["partitions"][0]["records"]


def record(topic: str, data: bytes) -> dict[str, Any]:
    [record] = records_of(topic, data)
    [found] = record["records"]
    return dict(found)


def test_keys_and_values_of_committed_offsets() -> None:
    found = record("__consumer_offsets", batch(OFFSET_VALUE, key=OFFSET_KEY))
    assert found["key"] == {
        "type": "OffsetCommitKey",
        "record_type": 1,
        "data": {"group": "g", "topic": "t", "partition": 2},
    }
    assert found["value"] == {
        "type": "OffsetCommitValue",
        "version": 3,
        "data": {"offset": 42, "leader_epoch": 1, "metadata": "", "commit_timestamp": 5},
    }


def test_a_tombstone_has_a_key_and_no_value() -> None:
    found = record("__consumer_offsets", batch(None, key=OFFSET_KEY))
    assert (found["key"]["type"], found["value"]) == ("OffsetCommitKey", None)


def test_in_produce_requests_too() -> None:
    message = request(
        "Produce",
        9,
        topic_data=[
            {
                "name": "__consumer_offsets",
                "partition_data": [{"index": 0, "records": batch(OFFSET_VALUE, key=OFFSET_KEY)}],
            }
        ],
    )
    [data] = embedded.expand(message)["topic_data"]
    assert data["partition_data"][0]["records"][0]["records"][0]["value"]["data"]["offset"] == 42


@pytest.mark.parametrize("key", [None, b"", b"\x00"])
def test_a_value_without_a_key_to_it_is_left_alone(key: bytes | None) -> None:
    found = record("__consumer_offsets", batch(OFFSET_VALUE, key=key))
    assert (found["key"], found["value"]) == (key, OFFSET_VALUE)
    assert ("key_error" in found) == (key is not None)
    assert "value_error" not in found


def test_unknown_types_and_versions_stay_bytes_and_say_why() -> None:
    found = record("__consumer_offsets", batch(b"\x00\x63", key=OFFSET_KEY))
    assert (found["value"], found["key"]["type"]) == (b"\x00\x63", "OffsetCommitKey")
    assert "OffsetCommitValue has no version 99" in found["value_error"]
    found = record("__consumer_offsets", batch(OFFSET_VALUE, key=b"\x00\x63"))
    assert (found["key"], found["value"]) == (b"\x00\x63", OFFSET_VALUE)
    assert "kafka-group-coordinator has no record type 99" in found["key_error"]


def test_the_reason_is_the_meaning_of_the_node() -> None:
    message = fetched("__consumer_offsets", batch(b"\x00\x63", key=OFFSET_KEY))
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    value = at(body.children, "responses.0.partitions.0.records.0.records.0.value")
    assert (value.value, value.meaning) == (b"\x00\x63", "OffsetCommitValue has no version 99")


def test_records_of_other_topics_stay_bytes() -> None:
    found = record("orders", batch(OFFSET_VALUE, key=OFFSET_KEY))
    assert (found["key"], found["value"]) == (OFFSET_KEY, OFFSET_VALUE)


def test_groups_in_the_log_hold_what_their_members_said() -> None:
    subscription = b"\x00\x00" + encode(layout("ConsumerProtocolSubscription", 0), {"topics": ["t"]})
    member = {"member_id": "m", "client_id": "c", "client_host": "/h", "subscription": subscription, "assignment": b""}
    value = {"protocol_type": "consumer", "generation": 1, "protocol": "range", "leader": "m", "members": [member]}
    data = b"\x00\x03" + encode(layout("GroupMetadataValue", 3), value)
    found = record("__consumer_offsets", batch(data, key=b"\x00\x02\x00\x01g"))
    [inside] = found["value"]["data"]["members"]
    assert inside["subscription"]["data"]["topics"] == ["t"]
    assert inside["assignment"] == b""


def test_members_that_still_speak_the_classic_protocol() -> None:
    subscription = b"\x00\x00" + encode(layout("ConsumerProtocolSubscription", 0), {"topics": ["t"]})
    value = {
        "client_id": "c",
        "client_host": "/h",
        "classic_member_metadata": {
            "session_timeout_ms": 1,
            "supported_protocols": [{"name": "range", "metadata": subscription}, {"name": "old", "metadata": b""}],
        },
    }
    data = b"\x00\x00" + encode(layout("ConsumerGroupMemberMetadataValue", 0), value)
    records = batch(data, key=b"\x00\x05\x00\x01g\x00\x01m")
    classic = record("__consumer_offsets", records)["value"]["data"]["classic_member_metadata"]
    assert [protocol["metadata"] and protocol["metadata"]["type"] for protocol in classic["supported_protocols"]] == [
        "ConsumerProtocolSubscription",
        b"",
    ]
    message = fetched("__consumer_offsets", records)
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    value_node = at(body.children, "responses.0.partitions.0.records.0.records.0.value")
    tag = at(value_node.children, "data._tags.classic_member_metadata.classic_member_metadata")
    assert at(tag.children, "supported_protocols.0.metadata").meaning == "ConsumerProtocolSubscription"


def test_records_of_tiered_storage() -> None:
    segment = record("__remote_log_metadata", batch(PAYLOADS["remote-segment"]))["value"]
    assert segment["type"] == "RemoteLogSegmentMetadataRecord"
    assert (segment["data"]["start_offset"], segment["data"]["end_offset"]) == (10, 20)
    update = record("__remote_log_metadata", batch(PAYLOADS["remote-update"]))["value"]
    assert update["type"] == "RemoteLogSegmentMetadataUpdateRecord"
    delete = record("__remote_log_metadata", batch(PAYLOADS["remote-delete"]))["value"]
    assert delete["type"] == "RemotePartitionDeleteMetadataRecord"
    assert not {"rest"} & {*segment, *update, *delete}


def test_tiered_storage_has_no_secrets_to_withhold() -> None:
    found = record("__remote_log_metadata", batch(b"\x01\x63\x00", key=b"k"))
    assert (found["key"], found["value"]) == (b"k", b"\x01\x63\x00")
    assert "kafka-storage has no record type 99" in found["value_error"]


def test_records_of_the_metadata_topic() -> None:
    expected = {
        "type": "FeatureLevelRecord",
        "frame_version": 1,
        "api_key": 12,
        "version": 0,
        "data": {"name": "group.version", "feature_level": 1},
    }
    assert record("__cluster_metadata", batch(FEATURE))["value"] == expected
    [one] = records_of(METADATA_ID, batch(FEATURE), version=13)
    assert one["records"][0]["value"] == expected


@pytest.mark.parametrize("kind", [b"\x00\x00\x00\x07", b"\x00"])
def test_control_records_of_no_known_type_keep_their_value(kind: bytes) -> None:
    found = record("orders", batch(b"what", key=kind, is_control=True))
    assert (found["value"], found["control"]["type"]) == (b"what", "UNKNOWN")


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_in_compressed_records_everything_has_their_span(compression: str) -> None:
    message = fetched("__consumer_offsets", batch(OFFSET_VALUE, key=OFFSET_KEY, compression=compression))
    _, body = tree(message)
    assert embedded.expand_nodes(message, body) == []
    packed = at(body.children, "responses.0.partitions.0.records.0.records")
    offset = at(packed.children, "0.value.data.offset")
    assert (offset.value, offset.start, offset.end) == (42, packed.start, packed.end)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_in_message_sets_too(magic: int, compression: str) -> None:
    one = {"magic": magic, "compression": compression, "records": [{"key": OFFSET_KEY, "value": OFFSET_VALUE}]}
    message = fetched("__consumer_offsets", encode_records([one]))
    [row] = embedded.expand(message)["responses"]
    assert row["partitions"][0]["records"][0]["records"][0]["value"]["type"] == "OffsetCommitValue"
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    outer = at(body.children, "responses.0.partitions.0.records.0")
    inner = outer if compression == "none" else at(outer.children, "value.0")
    assert at(inner.children, "value").meaning == "OffsetCommitValue"
    assert at(inner.children, "key.data.group").value == "g"


def test_no_records_are_an_empty_list_and_null_stays_null() -> None:
    assert records_of("orders", b"") == []
    message = request("Produce", 9, topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": None}]}])
    [row] = embedded.expand(message)["topic_data"]
    assert row["partition_data"][0]["records"] is None
