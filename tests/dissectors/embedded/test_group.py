import pytest

from dissectors import embedded
from dissectors.hexdump import unhex
from dissectors.messages.message import Message
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.embedded.samples import PAYLOADS, join_request, node_at, real_message, request, response, tree

SUBSCRIPTION = unhex("""
    00 01                            # version 1
    00 00 00 01  00 06 6f 72 64 65 72 73
    ff ff ff ff                      # user_data null
    00 00 00 00                      # owned_partitions
""")
ASSIGNMENT = unhex("00 00  00 00 00 01  00 01 74  00 00 00 01 00 00 00 02  ff ff ff ff")


def expand_protocol(message: Message) -> dict[str, object]:
    [protocol] = embedded.expand(message)["protocols"]
    assert isinstance(protocol, dict)
    return protocol


def test_decoded_subscription_replaces_its_bytes() -> None:
    assert expand_protocol(join_request(SUBSCRIPTION)) == {
        "name": "range",
        "metadata": {
            "type": "ConsumerProtocolSubscription",
            "version": 1,
            "data": {"topics": ["orders"], "user_data": None, "owned_partitions": []},
        },
    }


def test_incomplete_payload_stays_bytes_with_the_reason() -> None:
    short = SUBSCRIPTION[:-4]
    assert expand_protocol(join_request(short)) == {
        "name": "range",
        "metadata": short,
        "metadata_error": "data.owned_partitions at byte 18 (0x0012): length of array needs 4 bytes, 0 left",
    }


def test_node_of_an_incomplete_payload_keeps_its_bytes_and_the_reason() -> None:
    message = join_request(SUBSCRIPTION[:-4])
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    node = node_at(body.children, "protocols.0.metadata")
    assert (node.value, node.children) == (SUBSCRIPTION[:-4], [])
    assert node.meaning is not None
    assert node.meaning.startswith("no ConsumerProtocolSubscription: data.owned_partitions at byte ")


def test_later_version_is_read_as_far_as_it_is_known() -> None:
    known_fields = encode(layout("ConsumerProtocolSubscription", 3), {"topics": ["t"], "rack_id": "r1"})
    later = b"\x00\x63" + known_fields + b"new"
    payload = expand_protocol(join_request(later))["metadata"]
    assert isinstance(payload, dict)
    assert (payload["version"], payload["data"]["rack_id"], payload["rest"]) == (99, "r1", b"new")


def test_bytes_after_a_payload_are_kept_in_the_tree() -> None:
    message = join_request(SUBSCRIPTION + b"more")
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    rest = node_at(body.children, "protocols.0.metadata.rest")
    assert (rest.value, message.frame[rest.start : rest.end]) == (b"more", b"more")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xff\xff\x00\x00", "ConsumerProtocolSubscription has no version -1"),
        (b"\x00", "a payload of 1 bytes has no room for its version"),
    ],
)
def test_bytes_without_a_valid_version_are_not_a_payload(data: bytes, error: str) -> None:
    protocol = expand_protocol(join_request(data))
    assert protocol["metadata"] == data
    assert str(protocol["metadata_error"]).endswith(error)


def test_payload_of_an_unknown_protocol_type_stays_bytes() -> None:
    data = b'{"version":1}'
    assert expand_protocol(join_request(data, protocol_type="sr")) == {"name": "range", "metadata": data}


def test_empty_assignment_is_not_a_payload() -> None:
    assert embedded.expand(response("SyncGroup", 5, protocol_type="consumer"))["assignment"] == b""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ASSIGNMENT, "ConsumerProtocolAssignment"),
        (PAYLOADS["connect-assign-0"], "ConnectAssignment"),
        (PAYLOADS["connect-assign-1"], "ConnectAssignment"),
        (PAYLOADS["connect-assign-2"], "ConnectAssignment"),
    ],
)
def test_payload_type_is_recognised_without_a_protocol_type(data: bytes, expected: str) -> None:
    sync_request = request("SyncGroup", 3, assignments=[{"member_id": "m", "assignment": data}])
    assert embedded.expand(sync_request)["assignments"][0]["assignment"]["type"] == expected
    assert embedded.expand(response("SyncGroup", 3, assignment=data))["assignment"]["type"] == expected


@pytest.mark.parametrize("data", [b"\x00", b'{"assignment":"sr"}', ASSIGNMENT + b"\x00", bytes(30)])
def test_unrecognised_bytes_without_a_protocol_type_stay_bytes(data: bytes) -> None:
    assert embedded.expand(response("SyncGroup", 3, assignment=data)) == {
        "throttle_time_ms": 0,
        "error_code": 0,
        "assignment": data,
    }


def test_described_groups_have_decoded_members() -> None:
    [group] = embedded.expand(real_message("kafka-python-4.3.1 DescribeGroups v6 response"))["groups"]
    members = [member for member in group["members"] if member["member_metadata"]]
    assert members
    for member in members:
        assert member["member_metadata"]["type"] == "ConsumerProtocolSubscription"
        assert member["member_assignment"]["data"]["assigned_partitions"]
