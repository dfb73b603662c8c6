"""Real frames with embedded payloads, payloads written by Kafka's own classes, and messages to put them in.

``frames.jsonl.gz`` was cut from captures of real clients (the names say which) and from a Kafka 4.3.1 asked for its
internal topics; ``payloads.jsonl`` was written by the serializers of Kafka 3.9.1 and 4.3.1.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dissectors import records, schemas
from dissectors.messages.message import Message, api_layouts, read_request, read_response, walk_message
from dissectors.wire.encode import encode
from dissectors.wire.node import Node

DATA = Path(__file__).parents[2] / "data" / "embedded"
METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def read_row(row: dict[str, Any]) -> Message:
    frame = bytes.fromhex(row["frame"])
    return read_request(frame) if row["request"] else read_response(frame, row["api_key"], row["version"])


FRAMES = {
    row["name"]: row for row in map(json.loads, gzip.decompress((DATA / "frames.jsonl.gz").read_bytes()).splitlines())
}
PAYLOADS = {
    row["name"]: bytes.fromhex(row["hex"])
    for row in map(json.loads, (DATA / "payloads.jsonl").read_text(encoding="utf-8").splitlines())
}


def real_message(name: str) -> Message:
    return read_row(FRAMES[name])


def request(api: str, version: int, **values: Any) -> Message:
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    layouts = api_layouts(api_entry.key, version)
    assert layouts is not None
    header = {"request_api_key": api_entry.key, "request_api_version": version, "correlation_id": 7, "client_id": "t"}
    return read_request(with_length_prefix(encode(layouts.request_header, header) + encode(layouts.request, values)))


def response(api: str, version: int, **values: Any) -> Message:
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    layouts = api_layouts(api_entry.key, version)
    assert layouts is not None
    payload = encode(layouts.response_header, {"correlation_id": 7}) + encode(layouts.response, values)
    return read_response(with_length_prefix(payload), api_entry.key, version)


def with_length_prefix(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def fetch_response(topic: str, data: bytes, version: int = 12) -> Message:
    """Return a Fetch response with record data of one topic, named by its id from v13 on."""
    partition = {"partition_index": 0, "high_watermark": 1, "aborted_transactions": None, "records": data}
    name = {"topic_id": topic} if version >= 13 else {"topic": topic}
    return response("Fetch", version, responses=[{**name, "partitions": [partition]}])


def batch(*values: bytes | None, key: bytes | None = None, **fields: Any) -> bytes:
    """Return a batch of format 2 with these record values."""
    return records.encode([{"records": [{"key": key, "value": value} for value in values], **fields}])


def join_request(metadata: bytes, name: str = "range", protocol_type: str = "consumer") -> Message:
    """Return a JoinGroup request with one protocol."""
    protocols = [{"name": name, "metadata": metadata}]
    return request("JoinGroup", 9, group_id="g", protocol_type=protocol_type, protocols=protocols)


def tree(message: Message) -> tuple[list[Node], Node]:
    """Return all nodes of a message, and the node of its body."""
    nodes = walk_message(message).nodes
    return nodes, nodes[-1]


def all_nodes(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from all_nodes(node.children)


def node_at(nodes: list[Node], path: str) -> Node:
    """Return the node at a path such as ``protocols.0.metadata``."""
    first, _, rest = path.partition(".")
    [node] = [node for node in nodes if node.name == first]
    return node_at(node.children, rest) if rest else node


def all_keys(value: Any) -> Iterator[str]:
    """Yield every key anywhere in a body."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from all_keys(element)


def payload_types(value: Any) -> list[str]:
    """Return the types of all payloads in a body."""
    names = []
    if isinstance(value, dict):
        if isinstance(value.get("data"), dict):
            names.append(value["type"])
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            names += payload_types(element)
    return names
