"""Malformed payloads of group protocols, and the edits that explain them."""

from collections.abc import Iterator

import pytest

from dissectors.diagnosis.payloads import diagnose_payload
from dissectors.diagnosis.whole_payloads import is_whole_payload
from dissectors.edits import Edit, write
from dissectors.embedded.payload_formats import PAYLOADS as PAYLOAD_NAMES
from dissectors.embedded.payload_formats import layouts_as_stated, layouts_for_version
from dissectors.messages.message import Message
from dissectors.rules.helpers.group_payloads import group_payloads, payload_deviation
from dissectors.wire.decode import decode
from dissectors.wire.layout import Layout, versions
from dissectors.wire.layout import layout as layout_of
from tests.dissectors.embedded.samples import PAYLOADS, request, response

SUBSCRIPTION = "ConsumerProtocolSubscription"
ASSIGNMENT = "ConsumerProtocolAssignment"
VERSION_MISSING = Edit.of("field_missing", "header.version", where=0)
ORDERS = "00000001 0006 6f7264657273"


@pytest.mark.parametrize(
    ("data", "name", "edit"),
    [
        (f"{ORDERS} ffffffff", SUBSCRIPTION, VERSION_MISSING),
        (f"{ORDERS} 00000001 00000003 ffffffff", ASSIGNMENT, VERSION_MISSING),
        (f"00000001 {ORDERS} ffffffff {ORDERS} 00000001 00000003", SUBSCRIPTION,
         Edit.of("int_width", "header.version", written="int32")),
        (f"0000 {ORDERS}", SUBSCRIPTION, Edit.of("field_missing", "user_data", where=1)),
        (f"0001 {ORDERS} ffffffff", SUBSCRIPTION, Edit.of("field_missing", "owned_partitions", where=2)),
        (f"0003 {ORDERS} ffffffff {ORDERS} 00000001 00000003", SUBSCRIPTION,
         Edit.of("body_version", "*", body_version=1, header=None)),
        (f"0000 {ORDERS} ffffffff {ORDERS} 00000001 00000003 00000007", SUBSCRIPTION,
         Edit.of("body_version", "*", body_version=2, header=None)),
        (f"0001 {ORDERS} 00000001 00000003", ASSIGNMENT, Edit.of("field_missing", "user_data", where=1)),
        ("0000 00000001 00000006 6f7264657273 ffffffff", SUBSCRIPTION,
         Edit.of("length_encoding", "topics[]", written="int32")),
    ],
)  # fmt: skip
def test_edit_of_a_payload_is_found(data: str, name: str, edit: Edit) -> None:
    diagnosis = diagnose_payload(bytes.fromhex(data), name)
    assert diagnosis is not None
    assert edit in (diagnosis.edit, *diagnosis.also), diagnosis
    assert diagnosis.confidence > 0.5


@pytest.mark.parametrize(
    ("version_hex", "edit"),
    [
        ("", Edit.of("field_missing", "version", where=0)),
        ("0007", Edit.of("int_width", "version", written="int16")),
        ("0000000000000007", Edit.of("int_width", "version", written="int64")),
    ],
)
def test_wrong_version_of_streams_user_data_is_found(version_hex: str, edit: Edit) -> None:
    data = PAYLOADS["streams-sub-7"]
    assert data[:4] == bytes((0, 0, 0, 7))
    diagnosis = diagnose_payload(bytes.fromhex(version_hex) + data[4:], "SubscriptionInfoData")
    assert diagnosis is not None
    assert diagnosis.edit == edit


@pytest.mark.parametrize("name", PAYLOAD_NAMES)
def test_no_two_fields_share_a_struct(name: str) -> None:
    """Otherwise an edit of one field would also change the other."""

    def structs(layout: Layout) -> Iterator[Layout]:
        for field in (*layout.fields, *layout.tagged):
            if field.struct is not None:
                yield field.struct
                yield from structs(field.struct)

    for version in versions(name):
        struct_ids = [id(struct) for struct in structs(layout_of(name, version))]
        assert len(set(struct_ids)) == len(struct_ids)


@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_payloads_written_by_kafka_are_complete(name: str) -> None:
    kinds = {
        "connect-meta": "ConnectWorkerState",
        "connect-assign": "ConnectAssignment",
        "streams-sub": "SubscriptionInfoData",
        "streams-assign": "AssignmentInfo",
    }
    for prefix, payload in kinds.items():
        if name.startswith(prefix):
            assert is_whole_payload(PAYLOADS[name], payload)


@pytest.mark.parametrize("name", ["connect-meta-1", "connect-assign-0", "connect-assign-2"])
def test_missing_version_of_a_connect_payload_is_found(name: str) -> None:
    payload = "ConnectWorkerState" if "meta" in name else "ConnectAssignment"
    diagnosis = diagnose_payload(PAYLOADS[name][2:], payload)
    assert diagnosis is not None
    assert diagnosis.edit == VERSION_MISSING


def test_fields_of_later_versions_are_not_errors() -> None:
    payload = bytes.fromhex("0007 00000000 ffffffff 00000000 00000000 ffff 0000002a")
    assert is_whole_payload(payload, SUBSCRIPTION)
    assert not is_whole_payload(b"\x00\x01" + payload[2:], SUBSCRIPTION)


def deviations(message: Message, protocol_type: str | None = None) -> list[Edit]:
    payload_deviations = [payload_deviation(message, payload) for payload in group_payloads(message, protocol_type)]
    return [deviation.edit for deviation in payload_deviations if deviation is not None]


SHORT = bytes.fromhex(f"0001 {ORDERS} ffffffff")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (request("JoinGroup", 5, protocol_type="consumer", protocols=[{"name": "range", "metadata": SHORT}]),
         "protocols[].metadata"),
        (response("JoinGroup", 5, members=[{"member_id": "m", "metadata": SHORT}]), "members[].metadata"),
        (response("DescribeGroups", 5, groups=[{"protocol_type": "consumer", "members": [{"member_metadata": SHORT}]}]),
         "groups[].members[].member_metadata"),
    ],
)  # fmt: skip
def test_edit_of_the_message_has_the_path_of_the_payload(message: Message, field: str) -> None:
    missing = Edit.of("field_missing", "owned_partitions", where=2)
    assert deviations(message) == [Edit.of("embedded_layout", field, payload=SUBSCRIPTION, edit=missing)]


def test_payloads_of_other_protocols_are_not_examined() -> None:
    registry = [{"name": "v0", "metadata": b'{"a": 1}'}]
    assert deviations(request("JoinGroup", 5, protocol_type="sr", protocols=registry)) == []
    assert deviations(request("SyncGroup", 5, protocol_type="x", assignments=[{"assignment": SHORT}])) == []


def test_streams_user_data_is_examined_inside_the_subscription() -> None:
    body = layouts_as_stated(SUBSCRIPTION, b"\x00\x01").body
    inner = PAYLOADS["streams-sub-7"]
    wrong_edit = Edit.of("length_encoding", "user_end_point", written="int16")
    layout = layouts_for_version("SubscriptionInfoData", 7).body
    broken = write(wrong_edit, layout, decode(layout, inner).values)
    assert len(broken) == len(inner) - 2
    for user_data, count in ((inner, 0), (broken, 1)):
        values = {"topics": ["orders"], "user_data": user_data, "owned_partitions": []}
        metadata = b"\x00\x01" + write(None, body, values)
        protocols = [{"name": "stream", "metadata": metadata}]
        edits = deviations(request("JoinGroup", 5, protocol_type="consumer", protocols=protocols))
        assert len(edits) == count
    edit = dict(dict(edits[0].detail)["edit"].detail)
    assert edit == {"payload": "SubscriptionInfoData", "edit": wrong_edit}


def test_contradictory_pair_of_edits_is_not_an_explanation() -> None:
    data = bytes.fromhex(
        "00020000001a636f6e6e6563742d312d663233343963363266383834393030330015687474703a2f2f776f726b65722d323a383038332f"
        "000000000000005700000001000000010000001900000001000762696c6c696e670000000300000003000000010000001900000000"
    )
    diagnosis = diagnose_payload(data, "ConnectAssignment")
    assert diagnosis is None or diagnosis.edit.then is None
