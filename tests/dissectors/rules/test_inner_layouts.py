"""Layout errors of messages inside messages: coordinators' records, payloads inside payloads, forwarded messages."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import pytest

from dissectors import records
from dissectors.connections.events import Direction
from dissectors.edits import Edit, frame_layout, parse, write
from dissectors.embedded.payload_formats import layouts_for_version
from dissectors.messages.message import Message, api_layouts
from dissectors.wire.decode import decode
from kproxy.inspection.explain import explain
from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import Detail
from tests.dissectors.embedded.samples import FRAMES, PAYLOADS, fetch_response, request
from tests.kproxy.frames import response

FETCHED_RECORDS = "responses[].partitions[].records"
GROUP_KEY = b"\x00\x02\x00\x07billing"
MEMBER = {
    "member_id": "rdkafka-0b7f", "client_id": "rdkafka", "client_host": "/10.0.0.9", "rebalance_timeout": 300_000,
    "session_timeout": 45_000,
}  # fmt: skip
SUBSCRIPTION = bytes.fromhex("0001 00000001 0006 6f7264657273 00000000 00000000")
VALUES: dict[tuple[str, int], dict[str, Any]] = {
    ("OffsetCommitValue", 3): {
        "offset": 4211, "leader_epoch": 7, "metadata": "", "commit_timestamp": 1_790_000_000_000,
    },
    ("GroupMetadataValue", 3): {
        "protocol_type": "consumer", "generation": 3, "protocol": "range", "leader": "rdkafka-0b7f",
        "current_state_timestamp": 1_790_000_000_000, "members": [MEMBER | {"subscription": SUBSCRIPTION}],
    },
    ("TransactionLogValue", 0): {
        "producer_id": 4000, "producer_epoch": 3, "transaction_timeout_ms": 60_000, "transaction_status": 1,
        "transaction_partitions": [{"topic": "orders", "partition_ids": [0, 1]}],
        "transaction_last_update_timestamp_ms": 1_790_000_000_000, "transaction_start_timestamp_ms": 1_790_000_000_000,
    },
    ("ShareSnapshotValue", 0): {
        "snapshot_epoch": 1, "state_epoch": 3, "leader_epoch": 7, "start_offset": 12, "delivery_complete_count": 0,
        "create_timestamp": 1_790_000_000_000, "write_timestamp": 1_790_000_000_000,
        "state_batches": [{"first_offset": 12, "last_offset": 19, "delivery_state": 0, "delivery_count": 1}],
    },
}  # fmt: skip
KEYS = {
    "OffsetCommitValue": ("__consumer_offsets", b"\x00\x01\x00\x07billing\x00\x06orders\x00\x00\x00\x02"),
    "GroupMetadataValue": ("__consumer_offsets", GROUP_KEY),
    "TransactionLogValue": ("__transaction_state", b"\x00\x00\x00\x02t1"),
    "ShareSnapshotValue": ("__share_group_state", b"\x00\x00\x00\x01g" + bytes(16) + b"\x00\x00\x00\x00"),
}


def fetch_value(name: str, version: int, edit: Edit | None, **batch: Any) -> Message:
    topic, key = KEYS[name]
    layouts = layouts_for_version(name, version)
    body = write(edit, layouts.body, VALUES[name, version])
    value = version.to_bytes(2, "big") + body
    return fetch_response(topic, records.encode([{"records": [{"key": key, "value": value}]} | batch]))


def layout_findings(frame: bytes, request_or_version: bytes | tuple[int, int] | None) -> list[dict[str, Any]]:
    explanation = explain(
        frame,
        request_or_version if not isinstance(request_or_version, bytes) else None,
        request=request_or_version if isinstance(request_or_version, bytes) else None,
    )
    return [
        {
            "code": finding.code,
            "edit": finding.problem.diagnosis.edit.as_json(),
            "message": finding.problem.message,
            "problem": finding.problem,
        }
        for finding in explanation.findings
        if finding.problem.diagnosis is not None
    ]


@pytest.mark.parametrize(
    ("name", "version", "edit"),
    [
        ("OffsetCommitValue", 3, Edit.of("field_missing", "leader_epoch", where=1)),
        ("OffsetCommitValue", 3, Edit.of("length_encoding", "metadata", written="int32")),
        ("GroupMetadataValue", 3, Edit.of("field_missing", "current_state_timestamp", where=4)),
        ("GroupMetadataValue", 3, Edit.of("length_encoding", "members[].subscription", written="int16")),
        ("TransactionLogValue", 0, Edit.of("length_encoding", "transaction_partitions[].topic", written="compact")),
        ("ShareSnapshotValue", 0, Edit.of("tag_buffer_missing", "state_batches[]._tags")),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [{}, {"compression": "zstd"}], ids=["plain", "compressed"])
def test_coordinator_record_with_a_wrong_layout_is_diagnosed(
    name: str, version: int, edit: Edit, batch: dict[str, Any]
) -> None:
    correct_message, broken_message = (
        fetch_value(name, version, applied_edit, **batch) for applied_edit in (None, edit)
    )
    assert not layout_findings(correct_message.frame, (1, 12))
    [reported] = layout_findings(broken_message.frame, (1, 12))
    assert reported["code"] == "L040"
    assert reported["edit"]["field"] == FETCHED_RECORDS
    assert reported["edit"]["detail"]["payload"] == name
    assert reported["edit"]["detail"]["edit"]["kind"] == edit.kind
    assert correct_message.layout is not None
    rewritten = write(parse(reported["edit"]), correct_message.layout, correct_message.body)
    assert rewritten == broken_message.frame[broken_message.body_start :]
    assert (
        broken_message.frame[reported["problem"].start : reported["problem"].end]
        == broken_message.body["responses"][0]["partitions"][0]["records"]
    )


def test_wrong_subscription_inside_a_group_record_is_diagnosed() -> None:
    values = VALUES["GroupMetadataValue", 3]
    inner_edit = Edit.of("field_missing", "owned_partitions", where=2)
    edit = Edit.of("embedded_layout", "members[].subscription", payload="ConsumerProtocolSubscription", edit=inner_edit)
    body = write(edit, layouts_for_version("GroupMetadataValue", 3).body, values)
    message = fetch_response(
        "__consumer_offsets", records.encode([{"records": [{"key": GROUP_KEY, "value": b"\x00\x03" + body}]}])
    )
    [reported] = layout_findings(message.frame, (1, 12))
    assert (
        reported["edit"]
        == Edit.of("embedded_layout", FETCHED_RECORDS, payload="GroupMetadataValue", edit=edit).as_json()
    )
    assert reported["problem"].blame == "client"  # the broker stores the bytes that a member sent


@pytest.mark.parametrize("name", FRAMES)
def test_real_frames_have_no_inner_layout_errors(name: str) -> None:
    row = FRAMES[name]
    frame = bytes.fromhex(row["frame"])
    codes = {
        finding["code"]
        for finding in layout_findings(frame, None if row["request"] else (row["api_key"], row["version"]))
    }
    assert not codes & {"L037", "L040", "L041"}


def test_wrong_assignment_inside_a_connect_state_is_diagnosed() -> None:
    inner_edit = Edit.of("field_missing", "config_offset", where=3)
    correct_payload = PAYLOADS["connect-assign-1"]
    layouts = layouts_for_version("ConnectAssignment", 1)
    broken_payload = correct_payload[:2] + write(
        inner_edit, layouts.body, decode(layouts.body, correct_payload, 2).values
    )
    state = layouts_for_version("ConnectWorkerState", 1).body
    for allocation, count in ((correct_payload, 0), (broken_payload, 1)):
        values = {"url": "http://worker-2:8083/", "config_offset": 87, "allocation": allocation}
        protocols = [{"name": "compatible", "metadata": b"\x00\x01" + write(None, state, values)}]
        reported = layout_findings(request("JoinGroup", 5, protocol_type="connect", protocols=protocols).frame, None)
        assert len(reported) == count
    edit = Edit.of("embedded_layout", "allocation", payload="ConnectAssignment", edit=inner_edit)
    assert (
        reported[0]["edit"]
        == Edit.of("embedded_layout", "protocols[].metadata", payload="ConnectWorkerState", edit=edit).as_json()
    )


def envelope_request(data: bytes) -> Message:
    return request("Envelope", 0, request_data=data, client_host_address=b"\x0a\0\0\x09")


def create_topics_request(edit: Edit | None) -> bytes:
    layouts = api_layouts(19, 5)
    assert layouts is not None
    topic = {"name": "orders", "num_partitions": 3, "replication_factor": 1}
    values: Mapping[str, Any] = {
        "header": {"request_api_key": 19, "request_api_version": 5, "correlation_id": 4, "client_id": "adminclient-1"},
        "body": {
            "topics": [topic | {"configs": [{"name": "sasl.jaas.config", "value": "hunter2"}]}],
            "timeout_ms": 30_000,
        },
    }
    return write(edit, frame_layout(layouts.request_header, layouts.request), values)[4:]


def test_forwarded_request_with_a_wrong_layout_is_diagnosed() -> None:
    edit = Edit.of("field_missing", "topics[].replication_factor", where=2)
    assert not layout_findings(envelope_request(create_topics_request(None)).frame, None)
    correct_message, broken_message = (
        envelope_request(create_topics_request(None)),
        envelope_request(create_topics_request(edit)),
    )
    [reported] = layout_findings(broken_message.frame, None)
    assert reported["code"] == "L041"
    assert (
        reported["edit"]
        == Edit.of("embedded_layout", "request_data", payload="CreateTopicsRequest v5", edit=edit).as_json()
    )
    assert correct_message.layout is not None
    assert (
        write(parse(reported["edit"]), correct_message.layout, correct_message.body)
        == broken_message.frame[broken_message.body_start :]
    )
    assert "hunter2" not in reported["problem"].message


def test_forwarded_response_with_a_wrong_layout_is_diagnosed() -> None:
    request_frame = envelope_request(create_topics_request(None)).frame
    correct_inner = response("CreateTopics", 5, {"topics": [{"name": "orders", "num_partitions": 3}]})[4:]
    correct_frame = response("Envelope", 0, {"response_data": correct_inner})
    assert not layout_findings(correct_frame, request_frame)
    without_tags = correct_inner[:4] + correct_inner[5:]  # the header of an older version
    [reported] = layout_findings(response("Envelope", 0, {"response_data": without_tags}), request_frame)
    assert reported["edit"]["detail"]["edit"]["kind"] == "header_version"
    assert reported["edit"]["detail"]["payload"] == "CreateTopicsResponse v5"


def test_secrets_of_a_forwarded_request_are_not_shown() -> None:
    data = create_topics_request(Edit.of("field_missing", "topics[].replication_factor", where=2))
    inspector = Inspector("test", Detail.RAW, excerpts=True)
    inspector.open(1, "10.0.0.9:50000", "10.0.0.1:9092", at=0)
    inspected = inspector.receive_data(1, Direction.REQUEST, envelope_request(data).frame, at=1)
    lines = b"".join(map(encode_line, inspected)).decode()
    assert "L041" in lines
    assert "hunter2" not in lines
    assert b"hunter2".hex() not in lines
    assert all(
        b"hunter2" not in base64.b64decode(encoded) for encoded in re.findall(r'"([A-Za-z0-9+/]{16,}=*)"', lines)
    )
