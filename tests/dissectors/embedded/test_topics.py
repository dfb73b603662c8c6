from typing import Any

import pytest

from dissectors import embedded
from dissectors.hexdump import unhex
from dissectors.records import encode as encode_records
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.embedded.samples import METADATA_ID, PAYLOADS, batch, fetch_response, node_at, request, tree

OFFSET_KEY = unhex("00 01  00 01 67  00 01 74  00 00 00 02")  # type 1, group g, topic t, partition 2
OFFSET_VALUE = b"\x00\x03" + encode(
    layout("OffsetCommitValue", 3), {"offset": 42, "leader_epoch": 1, "metadata": "", "commit_timestamp": 5}
)
FEATURE = b"\x01\x0c\x00" + encode(layout("FeatureLevelRecord", 0), {"name": "group.version", "feature_level": 1})


def expand_records(topic: str, data: bytes, version: int = 12) -> Any:
    [row] = embedded.expand(fetch_response(topic, data, version))["responses"]
    return row["partitions"][0]["records"]


def expand_record(topic: str, data: bytes) -> dict[str, Any]:
    [record] = expand_records(topic, data)
    [expanded] = record["records"]
    return dict(expanded)


def test_committed_offset_record_is_decoded() -> None:
    record = expand_record("__consumer_offsets", batch(OFFSET_VALUE, key=OFFSET_KEY))
    assert record["key"] == {
        "type": "OffsetCommitKey",
        "record_type": 1,
        "data": {"group": "g", "topic": "t", "partition": 2},
    }
    assert record["value"] == {
        "type": "OffsetCommitValue",
        "version": 3,
        "data": {"offset": 42, "leader_epoch": 1, "metadata": "", "commit_timestamp": 5},
    }


def test_tombstone_has_a_key_and_null_value() -> None:
    record = expand_record("__consumer_offsets", batch(None, key=OFFSET_KEY))
    assert (record["key"]["type"], record["value"]) == ("OffsetCommitKey", None)


def test_internal_record_is_decoded_in_produce_requests() -> None:
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
def test_value_without_a_known_key_stays_bytes(key: bytes | None) -> None:
    record = expand_record("__consumer_offsets", batch(OFFSET_VALUE, key=key))
    assert (record["key"], record["value"]) == (key, OFFSET_VALUE)
    assert ("key_error" in record) == (key is not None)
    assert "value_error" not in record


def test_unknown_record_types_and_versions_stay_bytes_with_the_reason() -> None:
    record = expand_record("__consumer_offsets", batch(b"\x00\x63", key=OFFSET_KEY))
    assert (record["value"], record["key"]["type"]) == (b"\x00\x63", "OffsetCommitKey")
    assert "OffsetCommitValue has no version 99" in record["value_error"]
    record = expand_record("__consumer_offsets", batch(OFFSET_VALUE, key=b"\x00\x63"))
    assert (record["key"], record["value"]) == (b"\x00\x63", OFFSET_VALUE)
    assert "kafka-group-coordinator has no record type 99" in record["key_error"]


def test_meaning_of_an_undecoded_node_is_the_reason() -> None:
    message = fetch_response("__consumer_offsets", batch(b"\x00\x63", key=OFFSET_KEY))
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    value = node_at(body.children, "responses.0.partitions.0.records.0.records.0.value")
    assert (value.value, value.meaning) == (b"\x00\x63", "OffsetCommitValue has no version 99")


def test_records_of_other_topics_stay_bytes() -> None:
    record = expand_record("orders", batch(OFFSET_VALUE, key=OFFSET_KEY))
    assert (record["key"], record["value"]) == (OFFSET_KEY, OFFSET_VALUE)


def test_group_metadata_record_has_decoded_members() -> None:
    subscription = b"\x00\x00" + encode(layout("ConsumerProtocolSubscription", 0), {"topics": ["t"]})
    member = {"member_id": "m", "client_id": "c", "client_host": "/h", "subscription": subscription, "assignment": b""}
    value = {"protocol_type": "consumer", "generation": 1, "protocol": "range", "leader": "m", "members": [member]}
    data = b"\x00\x03" + encode(layout("GroupMetadataValue", 3), value)
    record = expand_record("__consumer_offsets", batch(data, key=b"\x00\x02\x00\x01g"))
    [group_member] = record["value"]["data"]["members"]
    assert group_member["subscription"]["data"]["topics"] == ["t"]
    assert group_member["assignment"] == b""


def test_classic_metadata_of_a_consumer_group_member_is_decoded() -> None:
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
    classic = expand_record("__consumer_offsets", records)["value"]["data"]["classic_member_metadata"]
    assert [protocol["metadata"] and protocol["metadata"]["type"] for protocol in classic["supported_protocols"]] == [
        "ConsumerProtocolSubscription",
        b"",
    ]
    message = fetch_response("__consumer_offsets", records)
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    value_node = node_at(body.children, "responses.0.partitions.0.records.0.records.0.value")
    tag = node_at(value_node.children, "data._tags.classic_member_metadata.classic_member_metadata")
    assert node_at(tag.children, "supported_protocols.0.metadata").meaning == "ConsumerProtocolSubscription"


def test_tiered_storage_records_are_decoded() -> None:
    segment = expand_record("__remote_log_metadata", batch(PAYLOADS["remote-segment"]))["value"]
    assert segment["type"] == "RemoteLogSegmentMetadataRecord"
    assert (segment["data"]["start_offset"], segment["data"]["end_offset"]) == (10, 20)
    update = expand_record("__remote_log_metadata", batch(PAYLOADS["remote-update"]))["value"]
    assert update["type"] == "RemoteLogSegmentMetadataUpdateRecord"
    delete = expand_record("__remote_log_metadata", batch(PAYLOADS["remote-delete"]))["value"]
    assert delete["type"] == "RemotePartitionDeleteMetadataRecord"
    assert not {"rest"} & {*segment, *update, *delete}


def test_unknown_tiered_storage_record_is_not_redacted() -> None:
    record = expand_record("__remote_log_metadata", batch(b"\x01\x63\x00", key=b"k"))
    assert (record["key"], record["value"]) == (b"k", b"\x01\x63\x00")
    assert "kafka-storage has no record type 99" in record["value_error"]


def test_record_of_the_metadata_topic_is_decoded() -> None:
    expected = {
        "type": "FeatureLevelRecord",
        "frame_version": 1,
        "api_key": 12,
        "version": 0,
        "data": {"name": "group.version", "feature_level": 1},
    }
    assert expand_record("__cluster_metadata", batch(FEATURE))["value"] == expected
    [batch_entry] = expand_records(METADATA_ID, batch(FEATURE), version=13)
    assert batch_entry["records"][0]["value"] == expected


@pytest.mark.parametrize("kind", [b"\x00\x00\x00\x07", b"\x00"])
def test_control_record_of_an_unknown_type_keeps_its_value(kind: bytes) -> None:
    record = expand_record("orders", batch(b"what", key=kind, is_control=True))
    assert (record["value"], record["control"]["type"]) == (b"what", "UNKNOWN")


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_fields_in_compressed_records_have_the_span_of_the_records(compression: str) -> None:
    message = fetch_response("__consumer_offsets", batch(OFFSET_VALUE, key=OFFSET_KEY, compression=compression))
    _, body = tree(message)
    assert embedded.expand_nodes(message, body) == []
    records_node = node_at(body.children, "responses.0.partitions.0.records.0.records")
    offset = node_at(records_node.children, "0.value.data.offset")
    assert (offset.value, offset.start, offset.end) == (42, records_node.start, records_node.end)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_internal_topic_record_is_decoded_in_message_sets(magic: int, compression: str) -> None:
    entry = {"magic": magic, "compression": compression, "records": [{"key": OFFSET_KEY, "value": OFFSET_VALUE}]}
    message = fetch_response("__consumer_offsets", encode_records([entry]))
    [row] = embedded.expand(message)["responses"]
    assert row["partitions"][0]["records"][0]["records"][0]["value"]["type"] == "OffsetCommitValue"
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    outer = node_at(body.children, "responses.0.partitions.0.records.0")
    inner = outer if compression == "none" else node_at(outer.children, "value.0")
    assert node_at(inner.children, "value").meaning == "OffsetCommitValue"
    assert node_at(inner.children, "key.data.group").value == "g"


def test_empty_records_are_an_empty_list_and_null_stays_null() -> None:
    assert expand_records("orders", b"") == []
    message = request("Produce", 9, topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": None}]}])
    [row] = embedded.expand(message)["topic_data"]
    assert row["partition_data"][0]["records"] is None
