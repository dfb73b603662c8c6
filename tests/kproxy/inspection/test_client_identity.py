"""Lines name the client of every request, even if only the first request of a connection does (KIP-1313)."""

from collections.abc import Iterator

import pytest

from dissectors.messages.message import read_request
from kproxy import filters
from kproxy.browse.overviews.connections import ConnectionsOverview
from kproxy.client.plan import encode_requests, from_words
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import Line, RequestLine, ResponseLine
from tests.kproxy.browse.sample_overviews import feed
from tests.kproxy.stories import findings, lines_of_story
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
def use_header_v3() -> Iterator[None]:
    with header_v3():
        yield


def frames(lines: list[Line]) -> list[RequestLine | ResponseLine]:
    return [line for line in lines if isinstance(line, RequestLine | ResponseLine)]


def test_all_lines_of_a_connection_name_its_client() -> None:
    lines = frames(lines_of_story(STORY))
    assert [line.client_id for line in lines] == ["shop"] * 6 + [None] * 2
    assert [line.client_instance_id for line in lines] == [INSTANCE] * 6 + [None] * 2
    assert not any(line.findings for line in lines[:6])


def test_filters_and_overviews_cover_lines_without_a_client_id() -> None:
    lines = lines_of_story(STORY)
    for filter_text in ("client_id=shop", f"client_instance_id={INSTANCE}"):
        line_filter = filters.parse(filter_text)
        assert sum(line_filter.matches(as_mapping(line)) for line in frames(lines)) == 6
    first_connection, second_connection = feed(ConnectionsOverview(), lines).rows()
    assert (first_connection.client_ids, first_connection.client_instance_id) == (("shop",), INSTANCE)
    assert (second_connection.client_ids, second_connection.client_instance_id) == ((), None)


def test_send_identifies_the_client_only_in_the_first_request() -> None:
    requests = from_words(["OffsetDelete", "OffsetDelete", "Heartbeat:0"], 1, None)
    first_request, second_request, heartbeat = (read_request(frame) for frame in encode_requests(requests, "me"))
    assert first_request.header["client_id"] == "me"
    assert len(first_request.header["client_instance_id"]) == 22
    assert second_request.header["client_id"] is None
    assert "client_instance_id" not in second_request.header
    assert heartbeat.header["client_id"] == "me"


def test_finding_points_at_an_invalid_instance_id() -> None:
    [finding] = findings('> as app@AAAAAAAAAAAAAAAAAAAAAQ OffsetDelete v1 {"group_id": "g"}', "V021")
    assert finding.path == "header._tags.client_instance_id"
    assert finding.span == (18, 36)
