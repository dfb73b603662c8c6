from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import embedded, schemas
from dissectors.messages import value_annotations
from dissectors.messages.message import Message
from dissectors.messages.value_annotations import meaning
from dissectors.messages.value_annotations.tables import ABSENT, FIELDS, IN_MESSAGE
from dissectors.messages.value_annotations.times import LAST_MS, utc
from dissectors.wire.layout import snake_case
from dissectors.wire.node import Node
from tests.dissectors.embedded.samples import (
    FRAMES,
    all_nodes,
    join_request,
    node_at,
    read_row,
    real_message,
    request,
    response,
    tree,
)


def field_names() -> set[tuple[str, str]]:
    """Return every field of every message, as (message, name)."""
    names = set()

    def collect(message: str, fields: list[Any]) -> None:
        for field in fields:
            names.add((message, snake_case(field["name"])))
            collect(message, field.get("fields", []))

    for name in schemas.message_names():
        collect(name, schemas.message(name)["fields"])
    return names


#: Not in the schemas: record batches, and payloads that have a layout of their own.
ELSEWHERE = {"base_sequence", "base_timestamp", "next_rebalance_ms", "partition_leader_epoch"}
HAND_MADE = {"AssignmentInfo", "ConnectAssignment"}


def test_every_entry_of_the_tables_names_an_existing_field() -> None:
    fields = field_names()
    assert FIELDS.keys() - {name for _, name in fields} == ELSEWHERE
    rows = IN_MESSAGE.keys() | ABSENT.keys()
    assert {message for message, _ in rows - fields} == HAND_MADE


def test_every_annotator_accepts_any_value() -> None:
    for annotator in [*FIELDS.values(), *IN_MESSAGE.values()]:
        for value in (-6, -1, 0, 1, 127, True, "", "x"):
            assert annotator(value) is None or annotator(value)


@pytest.mark.parametrize(
    ("message", "path", "value", "expected"),
    [
        ("FetchResponse", "responses.0.partitions.1.error_code", 6, "NOT_LEADER_OR_FOLLOWER"),
        ("FetchResponse", "error_code", 0, "NONE"),
        ("CreateTopicsResponse", "topics.0.topic_config_error_code", 29, "TOPIC_AUTHORIZATION_FAILED"),
        ("FetchResponse", "error_code", 9999, "unknown error code 9999"),
        ("RequestHeader", "request_api_key", 1, "Fetch"),
        ("RequestHeader", "request_api_key", 9999, None),
        ("ApiVersionsResponse", "api_keys.0.api_key", 0, "Produce"),
        ("ProduceRequest", "acks", -1, "all in-sync replicas"),
        ("ProduceRequest", "acks", 0, "none, and no response"),
        ("ProduceRequest", "acks", 7, None),
        ("CreateAclsRequest", "creations.0.resource_type", 2, "TOPIC"),
        ("CreateAclsRequest", "creations.0.resource_type", 4, "CLUSTER"),
        ("DescribeConfigsRequest", "resources.0.resource_type", 4, "BROKER"),
        ("ConfigRecord", "resource_type", 2, "TOPIC"),
        ("AccessControlEntryRecord", "operation", 4, "WRITE"),
        ("FetchRequest", "isolation_level", 1, "READ_COMMITTED"),
        ("FetchRequest", "replica_id", -1, "CONSUMER_REPLICA_ID"),
        ("DescribeQuorumResponse", "replica_id", -1, None),
        ("FetchRequest", "session_epoch", -1, "FINAL_EPOCH"),
        ("FetchRequest", "session_epoch", 5, None),
        ("FindCoordinatorRequest", "key_type", 1, "TRANSACTION"),
        ("ListOffsetsRequest", "topics.0.partitions.0.timestamp", -2, "EARLIEST_TIMESTAMP"),
        ("ListOffsetsRequest", "topics.0.partitions.0.timestamp", 1_700_000_000_000, "2023-11-14T22:13:20.000Z"),
        ("ListOffsetsResponse", "topics.0.partitions.0.timestamp", -1, "none"),
        ("ListOffsetsResponse", "topics.0.partitions.0.timestamp", 1 << 60, None),
        ("OffsetCommitRequest", "topics.0.partitions.0.commit_timestamp", -1, "the broker's time"),
        ("DescribeGroupsResponse", "groups.0.authorized_operations", -(1 << 31), "not requested"),
        ("DescribeGroupsResponse", "groups.0.authorized_operations", 0, "none"),
        ("DescribeGroupsResponse", "groups.0.authorized_operations", 0b101001000, "READ, DELETE, DESCRIBE"),
        ("DescribeGroupsResponse", "groups.0.group_state", "Empty", "no members"),
        ("ShareFetchRequest", "topics.0.partitions.0.acknowledgement_batches.0.acknowledge_types.0", 1, "ACCEPT"),
        ("AlterUserScramCredentialsRequest", "upsertions.0.mechanism", 2, "SCRAM_SHA_512"),
        ("SaslHandshakeRequest", "mechanism", "PLAIN", None),
        ("EndTxnRequest", "committed", False, "ABORT"),
        ("MetadataResponse", "topics.0.topic_id", "AAAAAAAAAAAAAAAAAAAAAA", "none"),
        ("TransactionLogValue", "transaction_status", 4, "COMPLETE_COMMIT"),
        ("ConnectAssignment", "data.assignment.0.tasks.0", -1, "the connector itself"),
        ("MetadataRequest", "topics", None, "all topics"),
        ("MetadataRequest", "topics", [], "no topics"),
        ("MetadataRequest", "topics", [{"name": "t"}], None),
        ("DescribeClientQuotasResponse", "entries.0.entity.0.entity_name", None, "the default entity"),
        ("FetchRequest", "nothing_known", 1, None),
        ("FetchRequest", "", 1, None),
    ],
)
def test_values_have_the_expected_meaning(message: str, path: str, value: Any, expected: str | None) -> None:
    assert meaning(message, tuple(path.split(".")), value) == expected


@given(st.integers(0, LAST_MS))
def test_timestamps_are_formatted_in_utc(milliseconds: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert utc(milliseconds) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def annotate(message: Message) -> list[Node]:
    nodes, body = tree(message)
    embedded.expand_nodes(message, body)
    value_annotations.annotate(nodes, message)
    return nodes


def test_tree_has_the_meanings_of_its_values() -> None:
    nodes = annotate(join_request(b""))
    assert node_at(nodes, "header.request_api_key").meaning == "JoinGroup"
    assert node_at(nodes, "body.member_id").meaning == "a new member"
    assert node_at(nodes, "body.protocol_type").meaning is None


def test_array_elements_and_tagged_fields_are_annotated() -> None:
    nodes = annotate(request("Fetch", 15, replica_state={"replica_id": -1}, topics=[]))
    assert node_at(nodes, "body._tags.replica_state.replica_state.replica_id").meaning == "CONSUMER_REPLICA_ID"
    nodes = annotate(request("GetTelemetrySubscriptions", 0))
    assert node_at(nodes, "body.client_instance_id").meaning == "none"
    nodes = annotate(response("GetTelemetrySubscriptions", 0, accepted_compression_types=[4, 1]))
    elements = node_at(nodes, "body.accepted_compression_types").children
    assert [node.meaning for node in elements] == ["ZSTD", "GZIP"]


@pytest.mark.parametrize(
    ("version", "topics", "expected"),
    [(0, [], "all topics"), (1, [], "no topics"), (1, None, "all topics"), (12, None, "all topics")],
)
def test_all_topics_are_recognised_in_each_metadata_version(version: int, topics: Any, expected: str) -> None:
    nodes = annotate(request("Metadata", version, topics=topics))
    assert node_at(nodes, "body.topics").meaning == expected


def test_fields_of_payloads_are_annotated() -> None:
    nodes = annotate(real_message("snapshot"))
    config_records = [node for node in all_nodes(nodes) if node.meaning == "ConfigRecord"]
    assert {node_at(node.children, "data.resource_type").meaning for node in config_records} == {"BROKER", "TOPIC"}
    [acl_record] = [node for node in all_nodes(nodes) if node.meaning == "AccessControlEntryRecord"]
    assert node_at(acl_record.children, "data.resource_type").meaning == "TOPIC"
    assert node_at(acl_record.children, "data.pattern_type").meaning == "LITERAL"


def test_existing_meanings_are_kept() -> None:
    nodes = annotate(real_message("__consumer_offsets"))
    crcs = [node for node in all_nodes(nodes) if node.name == "crc"]
    assert {node.meaning for node in crcs} == {"valid"}


@given(st.sampled_from(sorted(FRAMES)), st.data())
def test_changed_real_frame_can_be_annotated(name: str, data: st.DataObject) -> None:
    row = FRAMES[name]
    frame = bytearray.fromhex(row["frame"])
    frame[data.draw(st.integers(12, len(frame) - 1))] = data.draw(st.integers(0, 255))
    message = read_row({**row, "frame": frame[: data.draw(st.integers(12, len(frame)))].hex()})
    assert all(isinstance(node.meaning, str | None) for node in all_nodes(annotate(message)))
