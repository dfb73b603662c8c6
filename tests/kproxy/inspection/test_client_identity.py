"""Lines say who sent a request, also if only the first one of its connection did (KIP-1313)."""

from collections.abc import Iterator

import pytest

from dissectors.messages.message import read_request
from kproxy import filters
from kproxy.browse.overviews.connections import ConnectionsOverview
from kproxy.client.plan import encode_requests, from_words
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import Line, RequestLine, ResponseLine
from tests.kproxy.browse.sample_overviews import feed
from tests.kproxy.stories import findings, told
from tests.unreleased_schemas import header_v3

INSTANCE = "q83vASNFZ4mrze8BI0VniQ"
STORY = f"""
    > as shop@{INSTANCE} OffsetDelete v1 {{"group_id": "g"}}
    < {{}}
    > as null OffsetDelete v1 {{"group_id": "g"}}
    < {{}}
    > as null Heartbeat v4 {{"group_id": "g"}}
    < {{}}
    2> as null Heartbeat v4 {{"group_id": "g"}}
    2< {{}}
"""


@pytest.fixture(autouse=True)
def schemas() -> Iterator[None]:
    with header_v3():
        yield


def frames(lines: list[Line]) -> list[RequestLine | ResponseLine]:
    return [line for line in lines if isinstance(line, RequestLine | ResponseLine)]


def test_all_lines_of_a_connection_have_its_client() -> None:
    lines = frames(told(STORY))
    assert [line.client_id for line in lines] == ["shop"] * 6 + [None] * 2
    assert [line.client_instance_id for line in lines] == [INSTANCE] * 6 + [None] * 2
    assert not any(line.findings for line in lines[:6])


def test_filters_and_overviews_select_all_of_them() -> None:
    lines = told(STORY)
    for text in ("client_id=shop", f"client_instance_id={INSTANCE}"):
        found = filters.parse(text)
        assert sum(found.matches(as_mapping(line)) for line in frames(lines)) == 6
    first, second = feed(ConnectionsOverview(), lines).rows()
    assert (first.client_ids, first.client_instance_id) == (("shop",), INSTANCE)
    assert (second.client_ids, second.client_instance_id) == ((), None)


def test_what_send_encodes_introduces_the_client_once() -> None:
    planned = from_words(["OffsetDelete", "OffsetDelete", "Heartbeat:0"], 1, None)
    first, second, older = (read_request(frame) for frame in encode_requests(planned, "me"))
    assert first.header["client_id"] == "me"
    assert len(first.header["client_instance_id"]) == 22
    assert second.header["client_id"] is None
    assert "client_instance_id" not in second.header
    assert older.header["client_id"] == "me"


def test_a_wrong_id_is_pointed_at() -> None:
    [wrong] = findings('> as app@AAAAAAAAAAAAAAAAAAAAAQ OffsetDelete v1 {"group_id": "g"}', "V021")
    assert wrong.path == "header._tags.client_instance_id"
    assert wrong.span == (18, 36)
