"""Edits of payloads inside bytes fields, and the rules that find them."""

from typing import Any

import pytest

from dissectors import records
from dissectors.diagnosis.payloads import diagnose_payload
from dissectors.edits import Edit, EditError, frame_layout, parse, write
from dissectors.embedded.consumer import assignment, subscription
from dissectors.messages.message import api_layouts
from dissectors.records.layout_deviations import deviations
from dissectors.records.layout_variants import ENCODINGS
from dissectors.wire.decode import decode
from dissectors.wire.layout import Field, Layout, layout
from kproxy.trace.lines import EditEntry
from tests.kproxy.stories import findings

PRODUCE = layout("ProduceRequest", 9)
JOIN = layout("JoinGroupRequest", 5)
RECORDS = "topic_data[].partition_data[].records"
METADATA = "protocols[].metadata"
#: A subscription of version 1 to the topic a, without owned partitions.
SHORT_SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 61 00000000")
WHOLE_SUBSCRIPTION = SHORT_SUBSCRIPTION + bytes(4)
WITHOUT_OWNED_PARTITIONS = Edit.of("field_missing", "owned_partitions", where=2)


def subscription_edit(edit: Edit) -> Edit:
    return Edit.of("embedded_layout", METADATA, payload="ConsumerProtocolSubscription", edit=edit)


def produce_body(*data: bytes) -> dict[str, Any]:
    return {"topic_data": [{"name": "a", "partition_data": [{"index": 0, "records": element} for element in data]}]}


def record_batches(**batch_fields: Any) -> bytes:
    entries = [
        {"value": b"a" * 40, "timestamp": 1_790_000_000_000, "headers": [{"key": "h", "value": b"v"}]},
        {"value": b"b" * 41, "key": b"k", "timestamp": 1_790_000_000_077},
        {"value": None, "key": b"k", "timestamp": 1_790_000_000_150},
    ]
    return records.encode([{"records": entries} | batch_fields])


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_records_are_written_in_every_encoding(encoding: str, compression: str) -> None:
    edit = Edit.of("record_encoding", RECORDS, written=encoding)
    data = write(edit, PRODUCE, produce_body(record_batches(compression=compression), b"", record_batches()))
    decoded = decode(PRODUCE, data)
    assert decoded.error is None
    assert decoded.end == len(data)
    [topic] = decoded.values["topic_data"]
    for partition in (topic["partition_data"][0], topic["partition_data"][2]):
        assert encoding in {deviation.written for deviation in deviations(bytes(partition["records"]))}
    assert topic["partition_data"][1]["records"] == b""


def test_data_other_than_whole_version_2_batches_is_unchanged() -> None:
    old_format, truncated, zeros = record_batches(magic=1, compression="gzip"), record_batches()[:-3], b"\0" * 20
    edit = Edit.of("record_encoding", RECORDS, written="record_length_int32")
    unedited = write(None, PRODUCE, produce_body(old_format, truncated, zeros))
    assert write(edit, PRODUCE, produce_body(old_format, truncated, zeros)) == unedited
    assert write(edit, PRODUCE, {"topic_data": None} | produce_body()) == write(None, PRODUCE, produce_body())


def test_payload_in_a_field_is_written_with_its_own_edit() -> None:
    protocols = [
        {"name": "range", "metadata": WHOLE_SUBSCRIPTION},
        {"name": "sticky", "metadata": WHOLE_SUBSCRIPTION + b"rest"},
    ]
    written = decode(JOIN, write(subscription_edit(WITHOUT_OWNED_PARTITIONS), JOIN, {"protocols": protocols})).values
    assert [bytes(protocol["metadata"]) for protocol in written["protocols"]] == [
        SHORT_SUBSCRIPTION,
        SHORT_SUBSCRIPTION + b"rest",
    ]


def test_edit_applies_to_a_payload_in_a_frame() -> None:
    layouts = api_layouts(11, 5)
    assert layouts is not None
    frame = frame_layout(layouts.request_header, layouts.request)
    values = {"header": {"client_id": "c"}, "body": {"protocols": [{"name": "range", "metadata": WHOLE_SUBSCRIPTION}]}}
    assert SHORT_SUBSCRIPTION + bytes(4) not in write(subscription_edit(WITHOUT_OWNED_PARTITIONS), frame, values)
    assert len(write(None, frame, values)) == len(write(subscription_edit(WITHOUT_OWNED_PARTITIONS), frame, values)) + 4


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0\0\0\1", b"\xff\xff\0\0"])
def test_bytes_that_are_not_a_payload_are_unchanged(data: bytes) -> None:
    values = {"protocols": [{"name": "range", "metadata": data}]}
    assert write(subscription_edit(WITHOUT_OWNED_PARTITIONS), JOIN, values) == write(None, JOIN, values)


def test_edit_that_does_not_fit_the_payload_version_is_rejected() -> None:
    version_0 = bytes.fromhex("0000 00000000 00000000")
    with pytest.raises(EditError, match="owned_partitions"):
        write(
            subscription_edit(WITHOUT_OWNED_PARTITIONS), JOIN, {"protocols": [{"name": "range", "metadata": version_0}]}
        )


@pytest.mark.parametrize(
    ("version", "omitted_field", "edit"),
    [
        (1, "owned_partitions", WITHOUT_OWNED_PARTITIONS),
        (2, "generation_id", Edit.of("field_missing", "generation_id", where=3)),
        (3, "rack_id", Edit.of("field_missing", "rack_id", where=4)),
        (3, "generation_id rack_id", Edit.of("body_version", "*", body_version=1, header=None)),
        (2, "owned_partitions generation_id", Edit.of("body_version", "*", body_version=0, header=None)),
    ],
)
def test_subscription_that_ends_early_is_diagnosed(version: int, omitted_field: str, edit: Edit) -> None:
    shape = layout("ConsumerProtocolSubscription", version)
    owned_partitions = [{"topic": "orders", "partitions": [1]}]
    values = {"topics": ["orders"], "generation_id": 7, "rack_id": "b", "owned_partitions": owned_partitions}
    whole_payload = version.to_bytes(2, "big") + write(None, shape, values)
    broken = version.to_bytes(2, "big") + write(edit, shape, values)
    assert omitted_field not in edit.field or broken != whole_payload
    diagnosis = diagnose_payload(broken, "ConsumerProtocolSubscription")
    assert diagnosis is not None
    assert edit in (diagnosis.edit, *diagnosis.also)
    message_edit = subscription_edit(diagnosis.edit)
    joins = [{"protocols": [{"metadata": metadata}]} for metadata in (whole_payload, broken)]
    assert write(message_edit, JOIN, joins[0]) == write(None, JOIN, joins[1])


@pytest.mark.parametrize("data", ["", "00", "0000", "0001 00000001 0009 61", "ffff 00000000", "0000 ffffffff 00"])
def test_payload_that_no_edit_explains_has_no_diagnosis(data: str) -> None:
    for payload in ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"):
        assert diagnose_payload(bytes.fromhex(data), payload) is None


def test_well_formed_payloads_decode_without_error() -> None:
    assert decode(subscription(WHOLE_SUBSCRIPTION), WHOLE_SUBSCRIPTION).error is None
    assert decode(assignment(bytes(10)), bytes(10)).error is None


def finding_edit(story: str, code: str) -> tuple[Edit, float | None]:
    [finding] = findings(story, code)
    assert isinstance(finding.edit, EditEntry)
    entry = finding.edit
    return parse({"kind": entry.kind, "field": entry.field, "detail": entry.detail}), finding.confidence


def test_l028_carries_the_edit() -> None:
    story = (
        '> JoinGroup v2 {"group_id": "g", "protocol_type": "consumer", "protocols": '
        f'[{{"name": "range", "metadata": "{SHORT_SUBSCRIPTION.hex()}"}}]}}'
    )
    edit, confidence = finding_edit(story, "L028")
    assert edit == subscription_edit(WITHOUT_OWNED_PARTITIONS)
    assert confidence is not None
    assert confidence >= 0.5


def test_l029_carries_the_edit() -> None:
    story = """
    > SyncGroup v5 {"group_id": "g", "generation_id": 1, "member_id": "m-1", "protocol_type": "consumer",
      "assignments": [{"member_id": "m-1", "assignment": "0000 00000001 0001 61 00000001 00000000"}]}
    """
    edit, _ = finding_edit(story, "L029")
    assert edit == Edit.of("embedded_layout", "assignments[].assignment", payload="ConsumerProtocolAssignment",
                           edit=Edit.of("field_missing", "user_data", where=1))  # fmt: skip


def test_r007_carries_the_edit() -> None:
    edit = Edit.of("record_encoding", RECORDS, written="record_length_int32")
    data = write(edit, PRODUCE, produce_body(record_batches()))
    wrong_records = bytes(decode(PRODUCE, data).values["topic_data"][0]["partition_data"][0]["records"])
    story = (
        '> Produce v9 {"topic_data": [{"name": "a", "partition_data": '
        f'[{{"index": 0, "records": "{wrong_records.hex()}"}}]}}]}}'
    )
    assert finding_edit(story, "R007") == (edit, 1.0)


def test_record_data_in_a_nested_struct_is_edited() -> None:
    inner = Layout("S", (Field("records", "records", length="int32", nullable=True),))
    shape = Layout("Mine", (Field("s", "struct", struct=inner, length="int8", nullable=True, default={}),))
    edit = Edit.of("record_encoding", "s.records", written="headers_missing")
    data = record_batches()
    assert write(edit, shape, {"s": {"records": data}}) != write(None, shape, {"s": {"records": data}})
    for values in ({"s": {"records": None}}, {"s": None}):
        assert write(edit, shape, values) == write(None, shape, values)
