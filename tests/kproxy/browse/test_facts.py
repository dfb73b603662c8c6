"""Facts about the items of an overview, which the terminal and the web application both show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kproxy.browse.facts import connections
from kproxy.browse.sources.source import SourcePhase
from kproxy.browse.tables.all_tables import TABLES
from kproxy.control.protocol import LateResponse
from kproxy.trace.lines import ErrorEntry, Line, RequestLine, TopicEntry
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA
from tests.kproxy.stories import lines_of_story

OLD = Path(__file__).parents[3] / "captures" / "old-client-at-kafka-4.pcap.gz"


def _late_response(request_line: RequestLine) -> LateResponse:
    at = timestamp(BEGAN + 6 * SECOND)
    return LateResponse(
        request_line.connection_id, request_line.correlation_id, request_line.ts, at, 0, "rebalance", "it may wait"
    )


def test_reason_for_lateness_is_shown_only_while_the_request_waits() -> None:
    first, second = request(1), request(2, at=1)
    for lines, late_request in (([first], first), ([first, response(first), second], first)):
        session = session_of(lines, phase=SourcePhase.LIVE)
        session.source.late[first.connection_id] = _late_response(late_request)
        [item] = [
            summary
            for summary in connections.rows_in_view(session, session.view)
            if summary.connection_id == first.connection_id
        ]
        facts = dict(connections.facts(session, item))
        assert facts["late"] == ("rebalance: it may wait" if len(lines) == 1 else "")
        [row] = [row for row in TABLES["connections"](session, session.view).rows if row.key == first.connection_id]
        assert list(row.facts) == connections.facts(session, item)


def test_rates_are_means_in_a_file_and_current_in_live_traffic() -> None:
    produced = [TopicEntry("orders", partitions=[0], bytes=9, records=2)]
    lines = [request(number, at=number, api="Produce", api_key=0, topics=produced) for number in range(41)]
    rates = []
    for phase in (SourcePhase.ENDED, SourcePhase.LIVE):
        session = session_of([*lines, request(99, at=60)], phase=phase)
        for table_name, title in (("apis", "per s"), ("topics", "written/s")):
            table = TABLES[table_name](session, session.view)
            [row] = [row for row in table.rows if row.key in ("Produce", "orders")]
            rates.append(row.values[[column.title for column in table.columns].index(title)])
    assert rates == [pytest.approx(41 / 60, rel=0.02), pytest.approx(82 / 40, rel=0.02), 0, 0]


def test_errors_of_apis_are_marked_as_routine_or_transient() -> None:
    names = ("REBALANCE_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "FENCED_INSTANCE_ID")
    lines: list[Line] = []
    for number, name in enumerate(names):
        heartbeat = request(number, at=number, api="Heartbeat", api_key=12)
        lines += [heartbeat, response(heartbeat, errors=[ErrorEntry("error_code", number, name)])]
    session = session_of(lines)
    [row] = TABLES["apis"](session, session.view).rows
    texts = row.values[-1].split(", ")
    assert sorted(texts) == [
        "COORDINATOR_NOT_AVAILABLE 1x (transient)", "FENCED_INSTANCE_ID 1x", "REBALANCE_IN_PROGRESS 1x (routine)",
    ]  # fmt: skip
    assert row.styles == {}
    session = session_of(lines[:2])
    [row] = TABLES["apis"](session, session.view).rows
    assert row.styles == {"errors": "dim", "which errors": "dim"}


def test_share_groups_show_the_records_held_by_members() -> None:
    session = session_of(lines_of_story("""
> ShareGroupHeartbeat v1 {"group_id": "work", "member_id": "m-1", "member_epoch": 0}
< {"member_id": "m-1", "member_epoch": 1, "heartbeat_interval_ms": 5000}
> ShareFetch v1 {"group_id": "work", "member_id": "m-1", "share_session_epoch": 0, "topics": []}
< {"acquisition_lock_timeout_ms": 30000, "responses": [{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": [
  {"acquired_records": [{"first_offset": 5, "last_offset": 9, "delivery_count": 2}]}]}]}
"""))  # fmt: skip
    [row] = TABLES["share-groups"](session, session.view).rows
    [held_records] = [text for label, text in row.facts if label == "holds records"]
    assert "holds 5 records: iQ2TY3LnUY29Lbs4b27PzA[0] 5-9 (delivery 2, lock" in held_records


def test_clients_have_columns_for_bytes_in_and_out() -> None:
    big, small = (
        request(1, client_id="big", connection_id="n-1", size=500),
        request(2, client_id="small", connection_id="n-2"),
    )
    session = session_of([big, small, response(big), response(small)])
    table = TABLES["clients"](session, session.view)
    titles = [column.title for column in table.columns]
    bytes_by_client = {
        row.values[0]: (row.values[titles.index("in")], row.values[titles.index("out")]) for row in table.rows
    }
    assert bytes_by_client == {"big": (500, 50), "small": (100, 50)}


def lines_of_slow_group() -> list[Line]:
    """Return the lines of a group whose member fetches after 0 and 10 s, and whose topic gets records until 15 s."""
    lines: list[Line] = [request(90, api="Heartbeat", api_key=12, client_id="c", group_id="billing")]
    for number in (0, 10):
        fetch = request(number, at=number, client_id="c")
        batch = TopicEntry("orders", partitions=[0], bytes=9, partition_bytes=[9], records=1, offsets=[number], lag=0)
        lines += [fetch, response(fetch, topics=[batch]), *_stored_batch(number + 1, 0, number + 1)]
    return [*lines, request(99, at=15, api="Heartbeat", api_key=12)]


def test_slow_group_says_why_it_is_behind_and_links_to_its_fetches() -> None:
    lines = lines_of_slow_group()
    session = session_of(lines)
    [row] = TABLES["groups"](session, session.view).rows
    assert dict(row.facts)["why it is behind"] == (
        f"the client is slow since {timestamp(BEGAN + SECOND // 1000)[11:23]} UTC, while records wait: "
        "it took up to 10.0 s from records to its next Fetch, and it has not fetched for 5.0 s"
    )
    assert row.reads_filter == '(client_id="c") and (api=Fetch or api=ShareFetch)'
    session = session_of(lines[:3])
    [row] = TABLES["groups"](session, session.view).rows
    assert dict(row.facts)["why it is behind"] == ""


def test_longest_generation_took_as_long_as_the_longest_rebalance() -> None:
    session = session_of_capture(DATA / "pcap" / "java-4.3.1.pcap.gz")
    table = TABLES["groups"](session, session.view)
    longest = [column.title for column in table.columns].index("longest rebalance")
    groups = [row for row in table.rows if row.values[1] == "classic" and row.values[longest]]
    assert len(groups) == 2
    for group in groups:
        lengths_ms = [float(text) for text in re.findall(r"UTC, took ([\d.]+) ms:", str(group.facts))]
        assert max(lengths_ms) == pytest.approx(group.values[longest] / 1000, abs=1)
    [rejoin] = [text for group in groups for _, text in group.facts if "by itself" in text]
    assert rejoin.endswith(
        "(the leader) rejoined by itself (a leader does so after a change of its topics or their partitions, or when "
        "it has given up partitions)"
    )


def test_clients_table_says_how_many_clients_kafka_4_refuses() -> None:
    for session, summary in (
        (session_of_capture(OLD), "it refuses 1 of 1 clients"),
        (session_of([request(1, api_version=0)]), "it refuses none of these clients; of 1, too little was seen"),
    ):
        assert f"(KIP-896): {summary}." in TABLES["clients"](session, session.view).about


def _stored_batch(number: int, partition: int, at: float) -> list[Line]:
    """Return the Produce exchange of a batch of 9 bytes that the broker stores."""
    entry = TopicEntry("orders", partitions=[partition], bytes=9, partition_bytes=[9], records=1, offsets=[number])
    request_line = request(number, at=at, api="Produce", api_key=0, topics=[entry])
    return [request_line, response(request_line, topics=[entry])]


def _not_read_fact(*lines: Line, trace_end_s: float) -> str:
    session = session_of([*lines, request(99, at=trace_end_s, api="Heartbeat", api_key=12)])
    [row] = TABLES["topics"](session, session.view).rows
    return dict(row.facts)["not read"]


def test_readers_clients_and_partitions_of_a_topic_are_separate_facts_the_largest_first() -> None:
    heartbeats = [
        request(number, api="Heartbeat", api_key=12, client_id=f"c-{number}", group_id=f"g-{number}", at=number)
        for number in (1, 2)
    ]
    lines: list[Line] = list(heartbeats)
    for number, partition, lag in ((1, 0, 5), (2, 1, 70)):
        fetch = request(9 + number, at=9 + number, client_id=f"c-{number}")
        fetched = TopicEntry("orders", partitions=[partition], bytes=9, partition_bytes=[9], records=1, lag=lag)
        lines += [fetch, response(fetch, topics=[fetched])]
    session = session_of(lines)
    [topic] = TABLES["topics"](session, session.view).rows
    labels = [label for label, _ in topic.facts]
    assert [label for label in labels if label.startswith("lag of")] == ["lag of group g-2", "lag of group g-1"]
    assert [label for label in labels if label.startswith("partition ")] == ["partition 1", "partition 0"]
    assert sorted(label for label in labels if label.startswith("client ")) == [
        "client c-1 at 10.0.0.1 (group g-1)",
        "client c-2 at 10.0.0.1 (group g-2)",
    ]
    table = TABLES["groups"](session, session.view)
    titles = [column.title for column in table.columns]
    start = titles.index("lag")
    assert titles[start : start + 3] == ["lag", "most lag", "most lag in"]
    lags = {row.key: tuple(row.values[start : start + 3]) for row in table.rows}
    assert lags == {"g-1": (5, 5, "orders"), "g-2": (70, 70, "orders")}
    [group] = [row for row in table.rows if row.key == "g-2"]
    last_fetch = timestamp(session.overviews.topics.topics_of_group("g-2")[0][1].last_at)[11:23]
    assert dict(group.facts)["reads orders"] == f"lag 70 (most 70); last Fetch response {last_fetch} UTC"
    assert "last Fetch of orders" in dict(group.marks)


def test_topics_show_partitions_that_nobody_reads() -> None:
    writes = [*_stored_batch(1, 0, 0), *_stored_batch(2, 1, 1), *_stored_batch(3, 1, 2)]
    fetch = request(4, at=3, topics=[TopicEntry("orders", partitions=[0])])
    reads = [fetch, response(fetch, topics=[TopicEntry("orders", partitions=[0], bytes=9, partition_bytes=[9])])]
    assert _not_read_fact(*writes, *reads, trace_end_s=121) == "[1] 18 B in 120.0 s"
    assert _not_read_fact(*writes, *reads, trace_end_s=30) == "", "the reader may just be slow"
    assert _not_read_fact(*writes, trace_end_s=121) == "", "no client reads the topic"
