import tracemalloc

import pytest

from dissectors import schemas
from dissectors.hexdump import unhex
from dissectors.messages.message import api_layouts, api_name, read_head, read_request, read_response, walk_message
from dissectors.wire.node import Node
from tests.kproxy.frames import request, response

API_VERSIONS_REQUEST = unhex("""
    00 00 00 0a              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
""")
HEARTBEAT_REQUEST = unhex("""
    00 00 00 17              # length
    00 0c 00 04              # api_key 12 (Heartbeat), api_version 4
    00 00 00 07              # correlation_id 7
    00 02 6d 65              # client_id "me"
    00                       # no tags in the header
    02 67                    # group_id "g"
    00 00 00 03              # generation_id 3
    02 6d                    # member_id "m"
    00                       # group_instance_id null
    00                       # no tags
""")
HEARTBEAT_RESPONSE = unhex("""
    00 00 00 0c              # length
    00 00 00 07              # correlation_id 7
    00                       # no tags in the header
    00 00 00 00              # throttle_time_ms
    00 1b                    # error_code 27 (REBALANCE_IN_PROGRESS)
    00                       # no tags
""")
UNSUPPORTED_VERSION = unhex("""
    00 00 00 10              # length
    00 00 00 2a              # correlation_id 42
    00 23                    # error_code 35
    00 00 00 01              # one API
    00 12 00 00 00 03        # ApiVersions 0 to 3
""")


def node_spans(nodes: list[Node]) -> list[tuple[str, int, int]]:
    return [(node.name, node.start, node.end) for node in nodes]


def test_request_is_read_with_its_header() -> None:
    message = read_request(HEARTBEAT_REQUEST)
    assert (message.is_request, message.api, message.api_key, message.version) == (True, "Heartbeat", 12, 4)
    assert (message.correlation_id, message.client_id) == (7, "me")
    assert message.body == {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": None}
    assert (message.body_start, message.end) == (17, len(HEARTBEAT_REQUEST))
    assert (message.error, message.decode_warnings, message.opaque, message.trailing) == (None, (), None, 0)


def test_response_is_read_in_the_layout_of_its_request() -> None:
    message = read_response(HEARTBEAT_RESPONSE, 12, 4)
    assert (message.is_request, message.api, message.version) == (False, "Heartbeat", 4)
    assert (message.correlation_id, message.client_id) == (7, None)
    assert message.body == {"throttle_time_ms": 0, "error_code": 27}
    assert (message.body_start, message.trailing) == (9, 0)


def test_every_api_version_has_layouts() -> None:
    for api in schemas.apis():
        for version in api.versions:
            layouts = api_layouts(api.key, version)
            assert layouts is not None
            assert layouts.api == api.name


@pytest.mark.parametrize(("key", "version"), [(-1, 0), (12, -1), (12, 5), (18, 32767), (999, 0)])
def test_unknown_api_versions_have_no_layouts(key: int, version: int) -> None:
    assert api_layouts(key, version) is None


def test_unknown_api_is_named_by_its_number() -> None:
    assert (api_name(12), api_name(999)) == ("Heartbeat", "API 999")


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    message = read_request(unhex("0000000c 0007 0000 00000001 00000005"))
    assert (message.client_id, message.body, message.error) == (None, {"broker_id": 5}, None)


def test_response_to_api_versions_has_header_version_0() -> None:
    message = read_response(unhex("0000000c 0000002a 0000 01 00000000 00"), 18, 3)
    assert message.body == {"error_code": 0, "api_keys": [], "throttle_time_ms": 0}
    assert message.trailing == 0


def test_response_to_an_unsupported_version_is_read_as_version_0() -> None:
    body = {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 3}]}
    for version in (3, 4, 99):
        message = read_response(UNSUPPORTED_VERSION, 18, version)
        assert (message.body, message.version, message.error, message.trailing) == (body, version, None, 0)
        assert message.opaque is None


@pytest.mark.parametrize("version", [1, 3])
def test_unsupported_version_error_may_have_the_requested_version(version: int) -> None:
    frame = response("ApiVersions", version, {"error_code": 35, "throttle_time_ms": 9})
    message = read_response(frame, 18, version)
    assert message.body == {"error_code": 35, "api_keys": [], "throttle_time_ms": 9}
    assert (message.error, message.trailing) == (None, 0)


def test_error_35_of_another_api_keeps_its_layout() -> None:
    message = read_response(response("Heartbeat", 0, {"error_code": 35}), 12, 0)
    assert message.body == {"error_code": 35}


def test_unknown_api_key_is_opaque_with_a_readable_header() -> None:
    message = read_request(unhex("0000000e 03e7 0002 00000007 0002 6d65 cafe"))
    assert (message.api, message.api_key, message.version) == ("API 999", 999, 2)
    assert (message.correlation_id, message.client_id, message.body) == (7, "me", {})
    assert message.opaque == "unknown API key 999"
    assert (message.layout, message.error, message.trailing) == (None, None, 0)


def test_message_above_the_schema_versions_is_opaque() -> None:
    message = read_request(unhex("0000000a 000c 0063 00000007 ffff"))
    assert (message.api, message.version) == ("Heartbeat", 99)
    assert message.opaque == "Heartbeat v99 is not in the schemas, which end at v4"
    message = read_response(unhex("00000008 00000007 cafecafe"), 12, 99)
    assert (message.correlation_id, message.body, message.trailing) == (7, {}, 0)
    assert message.opaque == "Heartbeat v99 is not in the schemas, which end at v4"


def test_bytes_after_the_last_field_are_counted() -> None:
    message = read_request(unhex("0000000e 0012 0000 0000002a ffff  00 00 00 00"))
    assert (message.error, message.end, message.trailing) == (None, 14, 4)


def test_truncated_body_keeps_the_fields_before_the_error() -> None:
    message = read_request(HEARTBEAT_REQUEST[:-4])
    assert message.body == {"group_id": "g", "generation_id": 3}
    assert str(message.error) == "member_id at byte 23 (0x0017): length of string needs 1 byte, 0 left"
    assert (message.end, message.trailing) == (23, 0)


def test_invalid_header_leaves_no_body() -> None:
    message = read_request(unhex("0000000e 000c 0004 00000007 7fff 6d65 0000"))
    assert (message.api, message.correlation_id, message.client_id, message.body) == ("Heartbeat", 7, None, {})
    assert str(message.error) == "client_id at byte 12 (0x000c): length 32767 does not fit: 4 bytes left"
    assert node_spans(walk_message(message).nodes) == [("size", 0, 4), ("header", 4, 12)]


@pytest.mark.parametrize(
    ("hex_text", "api", "version", "correlation_id"),
    [
        ("", "API -1", -1, -1),
        ("0000", "API -1", -1, -1),
        ("00000001 00", "API -1", -1, -1),
        ("00000002 000c", "Heartbeat", -1, -1),
        ("00000004 000c 0004", "Heartbeat", 4, -1),
        ("00000006 000c 0004 0000", "Heartbeat", 4, -1),
    ],
)
def test_frame_too_short_for_a_header_keeps_its_first_fields(
    hex_text: str, api: str, version: int, correlation_id: int
) -> None:
    message = read_request(unhex(hex_text))
    assert (message.api, message.version, message.correlation_id) == (api, version, correlation_id)
    assert message.error is not None
    assert message.trailing == 0


def test_response_too_short_for_a_header_is_an_error() -> None:
    message = read_response(unhex("00000002 0000"), 12, 4)
    assert (message.correlation_id, message.body) == (-1, {})
    assert str(message.error) == "correlation_id at byte 4 (0x0004): int32 needs 4 bytes, 2 left"


def test_decode_warnings_of_header_and_body_are_combined() -> None:
    frame = bytearray(request("Heartbeat", 0, {"group_id": "g", "member_id": "m"}, client_id="c"))
    frame[14] = 0xFF  # client_id "\xff"
    frame[17] = 0xFE  # group_id "\xfe"
    message = read_request(bytes(frame))
    assert [(warning.kind, warning.path) for warning in message.decode_warnings] == [
        ("utf8", ("client_id",)),
        ("utf8", ("group_id",)),
    ]
    assert tuple(walk_message(message).decode_warnings) == message.decode_warnings


def test_tree_has_size_header_and_body() -> None:
    size, header, body = walk_message(read_request(HEARTBEAT_REQUEST)).nodes
    assert (size.name, size.start, size.end, size.value) == ("size", 0, 4, 23)
    assert node_spans([header, *header.children]) == [
        ("header", 4, 17),
        ("request_api_key", 4, 6),
        ("request_api_version", 6, 8),
        ("correlation_id", 8, 12),
        ("client_id", 12, 16),
        ("_tags", 16, 17),
    ]
    assert node_spans([body, *body.children]) == [
        ("body", 17, 27),
        ("group_id", 17, 19),
        ("generation_id", 19, 23),
        ("member_id", 23, 25),
        ("group_instance_id", 25, 26),
        ("_tags", 26, 27),
    ]


def test_tree_ends_where_decoding_stopped() -> None:
    message = read_request(HEARTBEAT_REQUEST[:-4])
    tree = walk_message(message)
    assert str(tree.error) == str(message.error)
    assert tree.nodes[-1].end == message.end == 23


def test_tree_of_an_opaque_message_has_no_body() -> None:
    tree = walk_message(read_request(unhex("0000000e 03e7 0002 00000007 0002 6d65 cafe")))
    assert (node_spans(tree.nodes), tree.error) == ([("size", 0, 4), ("header", 4, 16)], None)


@pytest.mark.slow
def test_message_with_too_many_elements_is_opaque() -> None:
    frame = request("Metadata", 9, {"topics": [{"name": ""}] * 200_001})
    tracemalloc.start()
    message = read_request(frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (message.error, message.opaque) == (None, "more than 200000 elements in it")
    assert peak < 10_000_000
    assert str(walk_message(message).error) == "topics at byte 19 (0x0013): more than 200000 elements"
    assert read_request(request("Metadata", 9, {"topics": [{"name": ""}] * 200_000})).opaque is None


def test_head_of_a_message_is_marked_as_head_only() -> None:
    request_head = read_head(HEARTBEAT_REQUEST)
    assert request_head is not None
    response_head = read_head(HEARTBEAT_RESPONSE, request_head)
    assert response_head is not None
    for head in (request_head, response_head):
        assert (head.api, head.version, head.correlation_id, head.head_only) == ("Heartbeat", 4, 7, True)
        assert (head.body, head.well_formed, head.may_have_errors, head.ends_cache) == ({}, False, False, None)
