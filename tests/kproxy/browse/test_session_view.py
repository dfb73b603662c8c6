"""Several views of one session share its index."""

from __future__ import annotations

from kproxy.browse.sources.source import SourcePhase
from kproxy.filters import parse
from tests.kproxy.browse.sessions import LinesSource, read, request, session_of


def test_views_of_a_session_are_independent_and_see_later_rows() -> None:
    session = session_of([request(1, api="Fetch"), request(2, api="Metadata", api_key=3)], phase=SourcePhase.LIVE)
    fetches, text_search = session.new_view(), session.new_view()
    session.views += [fetches, text_search]
    fetches.visible.choose(parse("api=Fetch"))
    text_search.visible.choose(parse("metadata"))
    read(session)
    assert (len(session.visible), list(fetches.visible), list(text_search.visible)) == (2, [0], [1])
    assert fetches.matching is not None
    source = session.source
    assert isinstance(source, LinesSource)
    source.add(request(3, api="Fetch"))
    read(session)
    assert (len(session.visible), list(fetches.visible), list(text_search.visible)) == (3, [0, 2], [1])
    assert [(api.api, api.requests) for api in fetches.matching.apis.rows()] == [("Fetch", 2)]
    assert session.matching is None
