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
from dissectors.embedded.payload_formats import at_version
from dissectors.messages.message import Message, api_layouts
from dissectors.wire.decode import decode
from kproxy.inspection.explain import explain
from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import Detail
from tests.dissectors.embedded.samples import FRAMES, PAYLOADS, fetched, request
from tests.kproxy.frames import response

FETCHED = "responses[].partitions[].records"
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


def fetched_value(name: str, version: int, edit: Edit | None, **batch: Any) -> Message:
    topic, key = KEYS[name]
    layouts = at_version(name, version)
    body = write(edit, layouts.body, VALUES[name, version])
    value = version.to_bytes(2, "big") + body
    return fetched(topic, records.encode([{"records": [{"key": key, "value": value}]} | batch]))


def found(frame: bytes, asked: bytes | tuple[int, int] | None) -> list[dict[str, Any]]:
    explained = explain(
        frame, asked if not isinstance(asked, bytes) else None, request=asked if isinstance(asked, bytes) else None
    )
    return [
        {
            "code": finding.code,
            "edit": finding.problem.diagnosis.edit.as_json(),
            "message": finding.problem.message,
            "problem": finding.problem,
        }
        for finding in explained.findings
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
def test_a_coordinators_record_in_another_layout(name: str, version: int, edit: Edit, batch: dict[str, Any]) -> None:
    right, broken = (fetched_value(name, version, each, **batch) for each in (None, edit))
    assert not found(right.frame, (1, 12))
    [departed] = found(broken.frame, (1, 12))
    assert departed["code"] == "L040"
    assert departed["edit"]["field"] == FETCHED
    assert departed["edit"]["detail"]["payload"] == name
    assert departed["edit"]["detail"]["edit"]["kind"] == edit.kind
    assert right.layout is not None
    rewritten = write(parse(departed["edit"]), right.layout, right.body)
    assert rewritten == broken.frame[broken.body_start :]
    assert (
        broken.frame[departed["problem"].start : departed["problem"].end]
        == broken.body["responses"][0]["partitions"][0]["records"]
    )


def test_the_subscription_of_a_member_inside_the_record_of_its_group() -> None:
    values = VALUES["GroupMetadataValue", 3]
    short = Edit.of("field_missing", "owned_partitions", where=2)
    edit = Edit.of("embedded_layout", "members[].subscription", payload="ConsumerProtocolSubscription", edit=short)
    body = write(edit, at_version("GroupMetadataValue", 3).body, values)
    message = fetched(
        "__consumer_offsets", records.encode([{"records": [{"key": GROUP_KEY, "value": b"\x00\x03" + body}]}])
    )
    [departed] = found(message.frame, (1, 12))
    assert departed["edit"] == Edit.of("embedded_layout", FETCHED, payload="GroupMetadataValue", edit=edit).as_json()
    assert departed["problem"].blame == "client"  # the broker keeps what a member sent


@pytest.mark.parametrize("name", FRAMES)
def test_real_frames_have_no_layout_errors_inside(name: str) -> None:
    row = FRAMES[name]
    frame = bytes.fromhex(row["frame"])
    codes = {finding["code"] for finding in found(frame, None if row["request"] else (row["api_key"], row["version"]))}
    assert not codes & {"L037", "L040", "L041"}


def test_the_tasks_inside_the_state_of_a_connect_worker() -> None:
    wrong = Edit.of("field_missing", "config_offset", where=3)
    inner = PAYLOADS["connect-assign-1"]
    layouts = at_version("ConnectAssignment", 1)
    broken = inner[:2] + write(wrong, layouts.body, decode(layouts.body, inner, 2).values)
    state = at_version("ConnectWorkerState", 1).body
    for allocation, count in ((inner, 0), (broken, 1)):
        values = {"url": "http://worker-2:8083/", "config_offset": 87, "allocation": allocation}
        protocols = [{"name": "compatible", "metadata": b"\x00\x01" + write(None, state, values)}]
        departed = found(request("JoinGroup", 5, protocol_type="connect", protocols=protocols).frame, None)
        assert len(departed) == count
    edit = Edit.of("embedded_layout", "allocation", payload="ConnectAssignment", edit=wrong)
    assert (
        departed[0]["edit"]
        == Edit.of("embedded_layout", "protocols[].metadata", payload="ConnectWorkerState", edit=edit).as_json()
    )


def enveloped(data: bytes) -> Message:
    return request("Envelope", 0, request_data=data, client_host_address=b"\x0a\0\0\x09")


def create(edit: Edit | None) -> bytes:
    known = api_layouts(19, 5)
    assert known is not None
    topic = {"name": "orders", "num_partitions": 3, "replication_factor": 1}
    values: Mapping[str, Any] = {
        "header": {"request_api_key": 19, "request_api_version": 5, "correlation_id": 4, "client_id": "adminclient-1"},
        "body": {
            "topics": [topic | {"configs": [{"name": "sasl.jaas.config", "value": "hunter2"}]}],
            "timeout_ms": 30_000,
        },
    }
    return write(edit, frame_layout(known.request_header, known.request), values)[4:]


def test_a_forwarded_request_in_another_layout() -> None:
    edit = Edit.of("field_missing", "topics[].replication_factor", where=2)
    assert not found(enveloped(create(None)).frame, None)
    right, broken = enveloped(create(None)), enveloped(create(edit))
    [departed] = found(broken.frame, None)
    assert departed["code"] == "L041"
    assert (
        departed["edit"]
        == Edit.of("embedded_layout", "request_data", payload="CreateTopicsRequest v5", edit=edit).as_json()
    )
    assert right.layout is not None
    assert write(parse(departed["edit"]), right.layout, right.body) == broken.frame[broken.body_start :]
    assert "hunter2" not in departed["problem"].message


def test_a_forwarded_response_in_another_layout() -> None:
    asked = enveloped(create(None)).frame
    inner = response("CreateTopics", 5, {"topics": [{"name": "orders", "num_partitions": 3}]})[4:]
    right = response("Envelope", 0, {"response_data": inner})
    assert not found(right, asked)
    without_tags = inner[:4] + inner[5:]  # the header of an older version
    [departed] = found(response("Envelope", 0, {"response_data": without_tags}), asked)
    assert departed["edit"]["detail"]["edit"]["kind"] == "header_version"
    assert departed["edit"]["detail"]["payload"] == "CreateTopicsResponse v5"


def test_no_secret_of_a_forwarded_request_is_shown() -> None:
    data = create(Edit.of("field_missing", "topics[].replication_factor", where=2))
    inspector = Inspector("test", Detail.RAW, excerpts=True)
    inspector.open(1, "10.0.0.9:50000", "10.0.0.1:9092", at=0)
    made = inspector.data(1, Direction.REQUEST, enveloped(data).frame, at=1)
    lines = b"".join(map(encode_line, made)).decode()
    assert "L041" in lines
    assert "hunter2" not in lines
    assert b"hunter2".hex() not in lines
    assert all(b"hunter2" not in base64.b64decode(each) for each in re.findall(r'"([A-Za-z0-9+/]{16,}=*)"', lines))
