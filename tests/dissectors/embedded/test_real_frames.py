from typing import Any

import pytest

from dissectors import embedded
from dissectors.wire.node import Node
from tests.dissectors.embedded.samples import FRAMES, all_keys, all_nodes, payload_types, real_message, tree
from tests.dissectors.spans import find_gap

TOPICS = {"Qa9HKp_3SxyQje5uwSyrTQ": "__consumer_offsets"}
READABLE = sorted(FRAMES.keys() - {"snapshot from byte 100"})
COMPRESSED = {"confluent-4.3.1 Fetch v16 response", "java-4.3.1 ShareFetch v2 response"}  # their records share a span


@pytest.mark.parametrize("name", READABLE)
def test_real_frame_is_decoded_completely(name: str) -> None:
    body = embedded.expand(real_message(name), TOPICS.get)
    assert payload_types(body)
    assert not [key for key in all_keys(body) if key.endswith("_error") or key in ("rest", "error")]


@pytest.mark.parametrize("name", sorted(set(READABLE) - COMPRESSED))
def test_nodes_of_payloads_cover_every_byte_of_a_real_frame(name: str) -> None:
    message = real_message(name)
    nodes, body = tree(message)
    embedded.expand_nodes(message, body, TOPICS.get)
    assert find_gap(nodes, 0, len(message.frame)) is None


@pytest.mark.parametrize("name", READABLE)
def test_tree_and_body_hold_the_same_payloads(name: str) -> None:
    message = real_message(name)
    _, body = tree(message)
    embedded.expand_nodes(message, body, TOPICS.get)
    in_tree = [node.meaning for node in all_nodes([body]) if any(child.name == "data" for child in node.children)]
    assert in_tree == payload_types(embedded.expand(message, TOPICS.get))


def plain_value(node: Node) -> Any:
    """Return the value that the decoder would give for a node."""
    if not node.children:
        return node.value
    if all(child.name.isdigit() for child in node.children):
        return [plain_value(child) for child in node.children]
    fields = {child.name: plain_value(child) for child in node.children if child.name != "_tags"}
    return {"type": node.meaning, **fields} if "data" in fields else fields


@pytest.mark.parametrize("name", [name for name in READABLE if "Group" in name])
def test_tree_and_body_hold_the_same_values(name: str) -> None:
    message = real_message(name)
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    assert plain_value(body) == embedded.expand(message)


def test_expansion_leaves_the_message_unchanged() -> None:
    message, unchanged = real_message("__consumer_offsets"), real_message("__consumer_offsets")
    embedded.presentable_body(message)
    embedded.expand_nodes(message, tree(message)[1])
    assert message == unchanged


def test_internal_topic_given_by_id_needs_a_name() -> None:
    message = real_message("__consumer_offsets by id")
    assert "GroupMetadataValue" in payload_types(embedded.expand(message, TOPICS.get))
    assert payload_types(embedded.expand(message)) == []


def test_metadata_topic_is_recognised_by_its_id() -> None:
    found_types = payload_types(embedded.expand(real_message("__cluster_metadata")))
    assert {"LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"} < set(found_types)
    assert {"FeatureLevelRecord", "UserScramCredentialRecord", "RegisterBrokerRecord"} < set(found_types)


def test_transaction_markers_are_decoded_in_every_topic() -> None:
    body = embedded.expand(real_message("sarama_v0.11.0.0-3.9.1 Fetch v5 response"))
    markers = [
        record
        for topic in body["responses"]
        for partition in topic["partitions"]
        for batch in partition["records"]
        if batch["is_control"]
        for record in batch["records"]
    ]
    assert {record["control"]["type"] for record in markers} <= {"COMMIT", "ABORT"}
    assert markers[0]["value"] == {"type": "EndTxnMarker", "version": 0, "data": {"coordinator_epoch": 0}}
    assert markers[0]["key"]["data"] == {"type": 1 if markers[0]["control"]["type"] == "COMMIT" else 0}
