"""Plain text search, and views that share one index."""

from __future__ import annotations

import pytest

from kproxy.browse.rows.text_search import TextSearch, filter_or_text
from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import Filter, FilterError
from tests.kproxy.browse.sessions import Given, read, request, response, session_of


@pytest.mark.parametrize(
    ("typed", "text"),
    [("orders", "orders"), (' "not found" ', "not found"), ("'a=b'", "a=b"), ("NOT_LEADER", "NOT_LEADER"), ("é", "é"),
     ("not leader", "not leader"), ('"', '"')],
)  # fmt: skip
def test_what_is_no_filter_is_a_text(typed: str, text: str) -> None:
    assert filter_or_text(typed) == TextSearch(text)


def test_a_filter_is_a_filter_and_a_wrong_one_is_an_error() -> None:
    assert filter_or_text("  ") is None
    assert isinstance(filter_or_text("api=Fetch"), Filter)
    assert isinstance(filter_or_text("findings"), Filter)
    for wrong in ("topik=1", "api=Fech", "(orders", "orders and topic=", "a|b"):
        with pytest.raises(FilterError):
            filter_or_text(wrong)


@pytest.mark.parametrize(
    ("text", "count"), [("SHOP", 1), ('a"b', 1), ("Fetch", 2), ("AAAAAw", 0), ("nowhere", 0), ("größe", 1)]
)
def test_a_text_is_found_in_facts_but_not_in_bytes(text: str, count: int) -> None:
    first = request(1, client_id='Shop a"b', frame="AAAAAw==")
    session = session_of([first, response(first), request(2, client_id="GRÖSSE größe")])
    session.visible.choose(TextSearch(text))
    read(session)
    assert len(session.visible) == count


def test_views_of_a_session_are_independent_and_follow_it() -> None:
    session = session_of([request(1, api="Fetch"), request(2, api="Metadata", api_key=3)], phase=SourcePhase.LIVE)
    fetches, texts = session.new_view(), session.new_view()
    session.views += [fetches, texts]
    fetches.visible.choose(filter_or_text("api=Fetch"))
    texts.visible.choose(filter_or_text("metadata"))
    read(session)
    assert (len(session.visible), list(fetches.visible), list(texts.visible)) == (2, [0], [1])
    assert fetches.matching is not None
    source = session.source
    assert isinstance(source, Given)
    source.add(request(3, api="Fetch"))
    read(session)
    assert (len(session.visible), list(fetches.visible), list(texts.visible)) == (3, [0, 2], [1])
    assert [(api.api, api.requests) for api in fetches.matching.apis.rows()] == [("Fetch", 2)]
    assert session.matching is None
