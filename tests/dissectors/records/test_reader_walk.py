"""The nodes of record data: every byte belongs to a field, and the values agree with decode."""

from collections.abc import Callable
from typing import Any

from dissectors.records import decode, encode, walk
from dissectors.wire.node import Node


def leaves(nodes: list[Node]) -> list[Node]:
    return [leaf for node in nodes for leaf in (leaves(node.children) if node.children else [node])]


def child(node: Node, *path: str) -> Node:
    for name in path:
        [node] = [child for child in node.children if child.name == name]
    return node


def test_nodes_cover_every_byte_written_by_kafka(row: dict[str, Any]) -> None:
    data = row["data"]
    walked = walk(b"1234" + data + b"56", 4, 4 + len(data))
    assert walked.error is None
    spans = sorted({(leaf.start, leaf.end) for leaf in leaves(walked.nodes) if leaf.start < leaf.end})
    assert [start for start, _ in spans] == [4, *(end for _, end in spans)][: len(spans)]
    assert (spans[-1][1] if spans else 4) == 4 + len(data)


def test_nodes_agree_with_decode(row: dict[str, Any]) -> None:
    for node, batch in zip(walk(row["data"], 0, len(row["data"])).nodes, decode(row["data"]), strict=True):
        if "truncated" in batch:
            assert node.meaning == "truncated"
            assert node.end - node.start == batch["truncated"]
            continue
        assert (child(node, "crc").meaning == "valid") == batch["crc_valid"]
        records_node = child(node, "records" if batch["magic"] == 2 else "value")
        records = records_node.children if records_node.children or batch["magic"] == 2 else [node]
        assert len(records) == len(batch["records"])
        for record_node, record in zip(records, batch["records"], strict=True):
            assert (child(record_node, "key").value, child(record_node, "value").value) == (
                record["key"],
                record["value"],
            )
            offset = child(record_node, "offset_delta" if batch["magic"] == 2 else "offset")
            shown_offset = int(offset.meaning.removeprefix("offset ")) if offset.meaning else offset.value
            assert shown_offset == record["offset"]


def test_batch_fields_have_the_names_of_the_protocol() -> None:
    headers = [{"key": "h", "value": None}]
    data = encode([{"records": [{"key": b"k", "value": b"v", "timestamp": 7, "headers": headers}]}])
    [batch] = walk(data, 0, len(data)).nodes
    assert [node.name for node in batch.children] == [
        "base_offset", "batch_length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
        "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count", "records",
    ]  # fmt: skip
    record = child(batch, "records", "0")
    assert [(node.name, data[node.start : node.end], node.value) for node in leaves([record])] == [
        ("length", b"\x16", 11),
        ("attributes", b"\x00", 0),
        ("timestamp_delta", b"\x00", 0),
        ("offset_delta", b"\x00", 0),
        ("key", b"\x02k", b"k"),
        ("value", b"\x02v", b"v"),
        ("headers_count", b"\x02", 1),
        ("key", b"\x02h", "h"),
        ("value", b"\x01", None),
    ]


def test_meanings_give_codec_timestamp_and_flags() -> None:
    batch = {"compression": "lz4", "timestamp_type": "LogAppendTime", "is_transactional": True, "is_control": True}
    data = encode([batch | {"base_offset": 40, "records": [{"key": b"\x00\x00\x00\x00", "timestamp": 9}]}])
    [node] = walk(data, 0, len(data)).nodes
    assert child(node, "attributes").meaning == "lz4, LogAppendTime, transactional, control"
    assert child(node, "last_offset_delta").meaning == "last offset 40"
    assert child(node, "records", "0", "offset_delta").meaning == "offset 40"
    assert child(node, "records", "0", "timestamp_delta").meaning == "9"
    assert child(node, "records", "0", "key").meaning == "ABORT"
    data = encode([{"magic": 1, "records": [{"value": b"v", "timestamp": 9}]}])
    assert child(walk(data, 0, len(data)).nodes[0], "attributes").meaning == "none, CreateTime"


def test_invalid_crc_shows_the_computed_one(sample: Callable[[str], bytes]) -> None:
    valid_data = sample("v2-none")
    damaged_data = valid_data[:-5] + bytes([valid_data[-5] ^ 1]) + valid_data[-4:]
    crc = child(walk(damaged_data, 0, len(damaged_data)).nodes[0], "crc")
    assert crc.meaning is not None
    assert crc.meaning.startswith("computed 0x")
    assert decode(damaged_data)[0]["crc_valid"] is False


def test_compressed_records_have_the_span_of_the_compressed_bytes(sample: Callable[[str], bytes]) -> None:
    data = sample("v2-gzip")
    [batch] = walk(data, 0, len(data)).nodes
    records = child(batch, "records")
    assert (records.start, records.end, records.meaning, records.value) == (61, len(data), "gzip", None)
    assert {(leaf.start, leaf.end) for leaf in leaves([records])} == {(61, len(data))}
    assert len(records.children) == 5


def test_wrapped_messages_show_their_absolute_offsets(sample: Callable[[str], bytes]) -> None:
    data = sample("v1-lz4")
    value = child(walk(data, 0, len(data)).nodes[0], "value")
    offsets = [child(message, "offset") for message in value.children]
    assert [(node.value, node.meaning) for node in offsets] == [
        (0, "offset 1000"),
        (1, "offset 1001"),
        (5, "offset 1005"),
        (6, "offset 1006"),
        (300, "offset 1300"),
    ]


def test_truncated_end_keeps_the_readable_header_fields(sample: Callable[[str], bytes]) -> None:
    data = sample("truncated-v2-40")
    last_node = walk(data, 0, len(data)).nodes[-1]
    assert [node.name for node in last_node.children][-3:] == ["last_offset_delta", "base_timestamp", "truncated"]
    data = sample("truncated-v1-20")
    assert [node.name for node in walk(data, 0, len(data)).nodes[-1].children][-2:] == ["attributes", "truncated"]
