from typing import Any

import pytest

from dissectors import embedded
from dissectors.wire.node import Node
from tests.dissectors.embedded.samples import FRAMES, every, keys, real, tree, types
from tests.dissectors.spans import hole

TOPICS = {"Qa9HKp_3SxyQje5uwSyrTQ": "__consumer_offsets"}
READABLE = sorted(FRAMES.keys() - {"snapshot from byte 100"})
COMPRESSED = {"confluent-4.3.1 Fetch v16 response", "java-4.3.1 ShareFetch v2 response"}  # what is inside shares a span


@pytest.mark.parametrize("name", READABLE)
def test_nothing_in_a_real_frame_is_left_undecoded(name: str) -> None:
    body = embedded.expand(real(name), TOPICS.get)
    assert types(body)
    assert not [key for key in keys(body) if key.endswith("_error") or key in ("rest", "error")]


@pytest.mark.parametrize("name", sorted(set(READABLE) - COMPRESSED))
def test_the_fields_inside_cover_every_byte_of_a_real_frame(name: str) -> None:
    message = real(name)
    nodes, body = tree(message)
    embedded.expand_nodes(message, body, TOPICS.get)
    assert hole(nodes, 0, len(message.frame)) is None


@pytest.mark.parametrize("name", READABLE)
def test_the_tree_and_the_body_hold_the_same_payloads(name: str) -> None:
    message = real(name)
    _, body = tree(message)
    embedded.expand_nodes(message, body, TOPICS.get)
    in_tree = [node.meaning for node in every([body]) if any(child.name == "data" for child in node.children)]
    assert in_tree == types(embedded.expand(message, TOPICS.get))


def plain(node: Node) -> Any:
    """A node as the value that the decoder would give."""
    if not node.children:
        return node.value
    if all(child.name.isdigit() for child in node.children):
        return [plain(child) for child in node.children]
    made = {child.name: plain(child) for child in node.children if child.name != "_tags"}
    return {"type": node.meaning, **made} if "data" in made else made


@pytest.mark.parametrize("name", [name for name in READABLE if "Group" in name])
def test_the_tree_and_the_body_hold_the_same_values(name: str) -> None:
    message = real(name)
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    assert plain(body) == embedded.expand(message)


def test_the_message_itself_is_not_changed() -> None:
    message, again = real("__consumer_offsets"), real("__consumer_offsets")
    embedded.presentable(message)
    embedded.expand_nodes(message, tree(message)[1])
    assert message == again


def test_topics_named_by_id_need_a_name() -> None:
    message = real("__consumer_offsets by id")
    assert "GroupMetadataValue" in types(embedded.expand(message, TOPICS.get))
    assert types(embedded.expand(message)) == []


def test_the_metadata_topic_is_known_by_its_id() -> None:
    found = types(embedded.expand(real("__cluster_metadata")))
    assert {"LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"} < set(found)
    assert {"FeatureLevelRecord", "UserScramCredentialRecord", "RegisterBrokerRecord"} < set(found)


def test_ends_of_transactions_are_decoded_in_every_topic() -> None:
    body = embedded.expand(real("sarama_v0.11.0.0-3.9.1 Fetch v5 response"))
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
