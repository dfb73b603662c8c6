"""Timelines of transactions come from a story, those of groups from a capture with rebalances."""

from __future__ import annotations

from kproxy.browse.pictures.timelines import groups, timeline_json, transactions
from kproxy.filters import parse
from tests.kproxy.browse.sessions import session_of, session_of_capture
from tests.kproxy.capture_results import DATA
from tests.kproxy.stories import lines_of_story
from tests.kproxy.transactions.transaction_story import STORY


def test_each_transaction_is_a_span_that_links_to_its_first_frame() -> None:
    session = session_of(lines_of_story(STORY))
    data = timeline_json(transactions(session, session.view), session)
    [pay] = [timeline for timeline in data["timelines"] if timeline["name"] == "pay"]
    assert pay["filter"] == 'transaction="pay"'
    [lane] = pay["lanes"]
    assert [span[2] for span in lane["spans"]] == ["committed", "committed", "fenced"]
    exchange = session.exchange(lane["spans"][0][4])
    assert exchange is not None
    assert exchange.request is not None
    assert exchange.request.api == "AddPartitionsToTxn"
    for timeline in data["timelines"]:
        for start, end, *_ in timeline["lanes"][0]["spans"]:
            assert data["from"] <= start <= (data["to"] if end is None else end) <= data["to"]


def test_spans_do_not_link_to_rows_that_are_not_on_the_page() -> None:
    session = session_of(lines_of_story(STORY))
    data = timeline_json(transactions(session, session.view), session, {})
    assert {span[4] for timeline in data["timelines"] for span in timeline["lanes"][0]["spans"]} == {None}


def test_timelines_of_groups_show_generations_and_members() -> None:
    session = session_of_capture(DATA / "pcap" / "java-4.3.1.pcap.gz")
    timelines = groups(session, session.view)
    assert timelines
    for timeline in timelines:
        assert timeline.lanes[0].label == "generations"
    kinds = {span.kind for timeline in timelines for lane in timeline.lanes for span in lane.spans}
    assert {"generation", "member", "rebalance", "routine", "commit"} <= kinds
    routine = [
        span for timeline in timelines for lane in timeline.lanes for span in lane.spans if span.kind == "routine"
    ]
    assert "refused" not in kinds
    for span in routine:
        exchange = session.exchange(span.row)
        assert exchange is not None
        assert exchange.response is not None
        assert exchange.response.errors[0].name in span.text
    name = timelines[-1].name
    view = session.new_view()
    session.views.append(view)
    view.visible.choose(parse(f'group="{name}"'))
    _ = view.matching
    while session.work(1):
        pass
    assert [group.name for group in groups(session, view)] == [name]


def test_only_errors_that_are_not_routine_are_drawn_as_errors() -> None:
    story = (
        '> JoinGroup v7 {"group_id": "g", "protocol_type": "consumer"}\n< {"error_code": 79, "member_id": "m"}\n'
        '> JoinGroup v7 {"group_id": "g", "protocol_type": "consumer", "member_id": "m"}\n< {"error_code": 82}\n'
    )
    session = session_of(lines_of_story(story))
    [timeline] = groups(session, session.view)
    kinds = {
        span.text: span.kind for lane in timeline.lanes for span in lane.spans if span.text.startswith("JoinGroup:")
    }
    assert kinds == {"JoinGroup: MEMBER_ID_REQUIRED": "routine", "JoinGroup: FENCED_INSTANCE_ID": "refused"}
