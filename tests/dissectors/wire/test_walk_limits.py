"""A walk makes a limited number of nodes and warnings, also across tagged fields."""

from __future__ import annotations

import pytest

from dissectors.messages.message import read_request, read_response, walk_message
from dissectors.rules.helpers.decode_warnings import others_suffix
from dissectors.wire import walk as module
from dissectors.wire.errors import TooManyElements
from tests.kproxy.frames import request, response

TOPICS = request("Metadata", 9, {"topics": [{"name": f"t{number}"} for number in range(100)]}, client_id="x")


@pytest.mark.parametrize(("limit", "is_partial"), [(1000, False), (100, True), (3, True)])
def test_tree_is_partial_beyond_the_limit_of_nodes(limit: int, is_partial: bool) -> None:
    tree = walk_message(read_request(TOPICS), most_nodes=limit)
    assert isinstance(tree.error, TooManyElements) == is_partial
    assert tree.size <= limit
    assert (tree.nodes[-1].end == len(TOPICS)) != is_partial


def test_unknown_tags_count_as_nodes() -> None:
    body = {"topics": [], "_tags": [[100 + tag, b"x"] for tag in range(50)]}
    assert isinstance(walk_message(read_request(request("Metadata", 9, body)), most_nodes=20).error, TooManyElements)


def test_number_of_warnings_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WARNINGS", 5)
    frame = TOPICS.replace(b"t", b"\xff")  # no topic's name is UTF-8
    assert len(walk_message(read_request(frame)).decode_warnings) == 5


def test_limited_count_is_shown_as_a_minimum() -> None:
    assert others_suffix(1) == ""
    assert others_suffix(3) == ", as are 2 more in this frame"
    assert others_suffix(module.MAX_WARNINGS).startswith(", as are at least 9999 more")


def test_tagged_fields_share_the_node_limit_of_their_message() -> None:
    features = [{"name": f"f{number}"} for number in range(20)]
    frame = response("ApiVersions", 3, {"supported_features": features, "finalized_features": features})
    message = read_response(frame, 18, 3)
    complete_tree = walk_message(message)
    assert complete_tree.error is None
    assert isinstance(walk_message(message, most_nodes=complete_tree.size - 1).error, TooManyElements)
    assert walk_message(message, most_nodes=complete_tree.size).error is None
