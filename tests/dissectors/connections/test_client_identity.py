"""The client identity of a connection, which only its first request may carry (KIP-1313)."""

import struct
from collections.abc import Iterator

import pytest

from dissectors.connections.connection import Connection
from dissectors.connections.events import Direction, RequestReceived
from dissectors.hexdump import unhex
from dissectors.messages.message import Message, api_layouts
from dissectors.wire.encode import encode
from tests.unreleased_schemas import header_v3

INSTANCE = "q83vASNFZ4mrze8BI0VniQ"

#: Written by hand from the schemas, with spaces between the fields.
FIRST = unhex("""
    00 00 00 21              # length
    00 47 00 01              # GetTelemetrySubscriptions v1
    00 00 00 01              # correlation_id
    00 03 61 70 70           # client_id "app", an int16 string in each version
    01 00 10                 # one tag: 0, of 16 bytes
    ab cd ef 01 23 45 67 89 ab cd ef 01 23 45 67 89
    00                       # the body's tag buffer, which no longer holds the instance
""")  # fmt: skip
LATER = unhex("00 00 00 0c  00 47 00 01  00 00 00 02  ff ff  00  00")
OLDER_HEADER = unhex("00 00 00 0c  00 0c 00 00  00 00 00 03  ff ff  00 00")  # Heartbeat v0, cut short


@pytest.fixture(autouse=True)
def schemas() -> Iterator[None]:
    with header_v3():
        yield


def requests(*frames: bytes, midstream: bool = False) -> list[Message]:
    connection = Connection(midstream=midstream)
    events = [event for frame in frames for event in connection.receive_data(Direction.REQUEST, frame, at=0)]
    return [event.message for event in events if isinstance(event, RequestReceived)]


def test_later_requests_have_the_identity_of_the_first_request() -> None:
    first, later, older = requests(FIRST, LATER, OLDER_HEADER)
    assert first.header["client_instance_id"] == INSTANCE
    assert "client_id" in later.header
    assert later.header["client_id"] is None
    assert [message.client_id for message in (first, later, older)] == ["app", "app", "app"]
    assert [message.client_instance_id for message in (first, later, older)] == [INSTANCE] * 3
    assert first.well_formed
    assert later.well_formed


def test_identity_is_not_shared_between_connections() -> None:
    requests(FIRST)
    [later] = requests(LATER)
    assert later.client_id is None
    assert later.client_instance_id is None


def test_request_with_a_different_client_id_keeps_its_own() -> None:
    web_request = FIRST.replace(b"app", b"web")
    _, second, third = requests(FIRST, web_request, LATER)
    assert second.client_id == "web"
    assert third.client_id == "app"


@pytest.mark.parametrize("reserved", ["00" * 16, "00" * 15 + "01"])
def test_reserved_client_instance_id_is_ignored(reserved: str) -> None:
    with_reserved_id = FIRST[:20] + bytes.fromhex(reserved) + FIRST[36:]
    first, second = requests(with_reserved_id, FIRST)
    assert first.client_instance_id is None
    assert second.client_instance_id == INSTANCE


def test_undecodable_request_sets_no_identity() -> None:
    too_long = struct.pack(">i", len(FIRST) - 4 + 1) + FIRST[4:] + b"\0"
    _, later_request = requests(too_long, LATER)
    assert later_request.client_id is None
    assert later_request.client_instance_id is None


def test_header_encodes_to_the_expected_bytes() -> None:
    layouts = api_layouts(71, 1)
    assert layouts is not None
    head = {"request_api_key": 71, "request_api_version": 1, "correlation_id": 1, "client_id": "app"}
    assert encode(layouts.request_header, {**head, "client_instance_id": INSTANCE}) == FIRST[4:-1]
    # As in Kafka's RequestHeaderTest: without the instance id, the header is as long as in version 2: here 11 bytes.
    assert len(encode(layouts.request_header, {**head, "client_id": ""})) == 11


def test_released_versions_keep_their_header() -> None:
    layouts = api_layouts(47, 0)
    assert layouts is not None
    assert layouts.request_header.tagged == ()
