import pytest

from dissectors import embedded
from dissectors.hexdump import unhex
from dissectors.messages.message import Message
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.embedded.samples import PAYLOADS, at, joined, real, request, response, tree

SUBSCRIPTION = unhex("""
    00 01                            # version 1
    00 00 00 01  00 06 6f 72 64 65 72 73
    ff ff ff ff                      # user_data null
    00 00 00 00                      # owned_partitions
""")
ASSIGNMENT = unhex("00 00  00 00 00 01  00 01 74  00 00 00 01 00 00 00 02  ff ff ff ff")


def metadata_of(message: Message) -> dict[str, object]:
    [protocol] = embedded.expand(message)["protocols"]
    assert isinstance(protocol, dict)
    return protocol


def test_a_subscription_stands_in_place_of_its_bytes() -> None:
    assert metadata_of(joined(SUBSCRIPTION)) == {
        "name": "range",
        "metadata": {
            "type": "ConsumerProtocolSubscription",
            "version": 1,
            "data": {"topics": ["orders"], "user_data": None, "owned_partitions": []},
        },
    }


def test_a_version_without_its_fields_stays_bytes_and_says_why() -> None:
    short = SUBSCRIPTION[:-4]
    assert metadata_of(joined(short)) == {
        "name": "range",
        "metadata": short,
        "metadata_error": "data.owned_partitions at byte 18 (0x0012): length of array needs 4 bytes, 0 left",
    }


def test_its_node_keeps_the_bytes_and_means_why() -> None:
    message = joined(SUBSCRIPTION[:-4])
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    node = at(body.children, "protocols.0.metadata")
    assert (node.value, node.children) == (SUBSCRIPTION[:-4], [])
    assert node.meaning is not None
    assert node.meaning.startswith("no ConsumerProtocolSubscription: data.owned_partitions at byte ")


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    known = encode(layout("ConsumerProtocolSubscription", 3), {"topics": ["t"], "rack_id": "r1"})
    later = b"\x00\x63" + known + b"new"
    payload = metadata_of(joined(later))["metadata"]
    assert isinstance(payload, dict)
    assert (payload["version"], payload["data"]["rack_id"], payload["rest"]) == (99, "r1", b"new")


def test_bytes_after_a_payload_are_kept_in_the_tree_too() -> None:
    message = joined(SUBSCRIPTION + b"more")
    _, body = tree(message)
    embedded.expand_nodes(message, body)
    rest = at(body.children, "protocols.0.metadata.rest")
    assert (rest.value, message.frame[rest.start : rest.end]) == (b"more", b"more")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xff\xff\x00\x00", "ConsumerProtocolSubscription has no version -1"),
        (b"\x00", "a payload of 1 bytes has no room for its version"),
    ],
)
def test_what_has_no_version_is_no_payload(data: bytes, error: str) -> None:
    protocol = metadata_of(joined(data))
    assert protocol["metadata"] == data
    assert str(protocol["metadata_error"]).endswith(error)


def test_protocols_that_are_not_known_are_left_alone() -> None:
    data = b'{"version":1}'
    assert metadata_of(joined(data, protocol_type="sr")) == {"name": "range", "metadata": data}


def test_no_bytes_are_no_payload() -> None:
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
def test_where_no_protocol_type_is_said_the_bytes_tell(data: bytes, expected: str) -> None:
    sent = request("SyncGroup", 3, assignments=[{"member_id": "m", "assignment": data}])
    assert embedded.expand(sent)["assignments"][0]["assignment"]["type"] == expected
    assert embedded.expand(response("SyncGroup", 3, assignment=data))["assignment"]["type"] == expected


@pytest.mark.parametrize("data", [b"\x00", b'{"assignment":"sr"}', ASSIGNMENT + b"\x00", bytes(30)])
def test_where_nothing_is_said_what_does_not_fit_is_left_alone(data: bytes) -> None:
    assert embedded.expand(response("SyncGroup", 3, assignment=data)) == {
        "throttle_time_ms": 0,
        "error_code": 0,
        "assignment": data,
    }


def test_described_groups_say_what_their_members_sent() -> None:
    [group] = embedded.expand(real("kafka-python-4.3.1 DescribeGroups v6 response"))["groups"]
    members = [member for member in group["members"] if member["member_metadata"]]
    assert members
    for member in members:
        assert member["member_metadata"]["type"] == "ConsumerProtocolSubscription"
        assert member["member_assignment"]["data"]["assigned_partitions"]
