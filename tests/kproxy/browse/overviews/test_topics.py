"""Topics, held to counting over real captures; torn, hostile and many lines."""

from __future__ import annotations

import tracemalloc
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.bounded import MAX_NAME_LENGTH
from kproxy.browse.overviews import topics
from kproxy.browse.overviews.topic import PartitionSummary, ReaderLag, TopicSummary
from kproxy.browse.overviews.topics import TopicsOverview
from kproxy.browse.rows.index import time_of
from kproxy.trace.lines import ErrorEntry, Line, RequestLine, ResponseLine, TopicEntry
from tests.kproxy.browse.sample_overviews import captured, feed, feed_torn, opened
from tests.kproxy.browse.sample_overviews import torn as any_lines
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response

ID = "ku28YVRUQNy79bpH25sIdw"


def entry(topic: str | None = "orders", *, partitions: tuple[int, ...] = (0,), **more: object) -> TopicEntry:
    return TopicEntry(topic, partitions=list(partitions), **more)  # type: ignore[arg-type]


def produced(number: int, *entries: TopicEntry, at: float = 0, error: str = "", **more: object) -> list[Line]:
    """A Produce request and its answer, which repeats what the request brought."""
    asked = request(number, at=at, api="Produce", api_key=0, topics=list(entries), **more)
    errors = [ErrorEntry(path, 1, "NOT_LEADER_OR_FOLLOWER") for path in error.split()]
    return [asked, response(asked, topics=list(entries), errors=errors)]


def fetched(number: int, *entries: TopicEntry, at: float = 0, asks: list[TopicEntry] | None = None,
            **more: object) -> list[Line]:  # fmt: skip
    """A Fetch request and its answer; it asks for what it gets, but for `asks`."""
    named = [TopicEntry(entry.topic, entry.topic_id, entry.partitions) for entry in entries] if asks is None else asks
    asked = request(number, at=at, topics=named, **more)
    return [asked, response(asked, topics=list(entries) or named)]


def only(*lines: list[Line], now: int | None = None) -> TopicSummary:
    [row] = feed(TopicsOverview(), [line for some in lines for line in some]).rows(now)
    return row


def test_real_captures_are_counted_as_by_hand() -> None:
    rows = {row.topic or row.topic_id: row for row in feed(TopicsOverview(), captured()).rows()}
    written: dict[str | None, Counter[str]] = defaultdict(Counter)
    read: dict[str | None, Counter[str]] = defaultdict(Counter)
    for line in captured():
        if isinstance(line, RequestLine) and line.api == "Produce":
            counted, side = line.topics, written
        elif isinstance(line, ResponseLine) and line.api == "Fetch":
            counted, side = line.topics, read
        else:
            continue
        for topic_entry in counted:
            brought = {
                "records": topic_entry.records or 0,
                "bytes": topic_entry.bytes or 0,
                "batches": topic_entry.batches or 0,
            }
            side[topic_entry.topic or topic_entry.topic_id].update(
                brought | {"requests": 1, "empty": int(not topic_entry.bytes)}
            )
    assert len(written) > 3
    assert len(read) > 3
    assert {*written, *read} <= rows.keys()
    for name, row in rows.items():
        for traffic, side in ((row.produced, written), (row.fetched, read)):
            expected = side[name]
            sent = traffic.records + traffic.refused_records, traffic.bytes + traffic.refused_bytes
            assert (*sent, traffic.batches) == (expected["records"], expected["bytes"], expected["batches"])
            assert traffic.requests >= expected["requests"]  # those of sessions that name no topic are counted too
            assert traffic.requests - traffic.empty == expected["requests"] - expected["empty"]
            assert sum(traffic.all_time) == traffic.records


def test_what_is_written_and_read_with_sizes_codecs_and_rates() -> None:
    orders = entry(bytes=1000, records=10, batches=2, compression=["lz4"])
    row = only(
        produced(1, orders, at=0), produced(2, orders, at=10),
        produced(3, entry(bytes=50, records=1, batches=1), at=20),
        fetched(4, orders, at=25), fetched(5, entry(bytes=0, records=0), at=29),
    )  # fmt: skip
    assert (row.topic, row.produced.requests, row.produced.records, row.produced.bytes) == ("orders", 3, 21, 2050)
    assert (row.produced.batches, row.produced.compression, row.produced.empty) == (5, (("lz4", 2),), 0)
    assert (row.fetched.requests, row.fetched.empty, row.fetched.records) == (2, 1, 10)
    assert row.produced.minute[-30:] == (10, *[0] * 9, 10, *[0] * 9, 1, *[0] * 9)
    assert row.produced.records_rate == pytest.approx(1 / 9, rel=0.2)
    assert (row.producers, row.consumers, row.first_row, row.last_row) == (1, 1, 0, 4)
    assert row.last_at == BEGAN + 29_001_000_000


def test_rates_end_when_nothing_comes() -> None:
    row = only(produced(1, entry(bytes=1000, records=10)), now=BEGAN + 120 * SECOND)
    assert (row.produced.records_rate, sum(row.produced.minute), row.produced.records) == (0, 0, 10)


def test_lag_of_a_group_that_several_clients_read_for() -> None:
    groups = [request(90 + n, api="Heartbeat", api_key=12, group_id="billing", client_id=f"c-{n}") for n in (1, 2)]
    overview = feed(TopicsOverview(), [
        *fetched(1, entry(bytes=1, records=1, lag=500, partitions=(0, 1)), client_id="c-1"),
        *groups,
        *fetched(2, entry(bytes=1, records=1, lag=400, partitions=(0, 1)), client_id="c-1"),
        *fetched(3, entry(bytes=1, records=1, lag=30, partitions=(2,)), client_id="c-2"),
        *fetched(4, entry(bytes=1, records=1, lag=7, partitions=(1, 0)), client_id="c-1"),
        *fetched(5, entry(bytes=0, records=0, lag=9), client_id="other"),
    ])  # fmt: skip
    [row] = overview.rows()
    assert (row.lag, row.lag_max) == (37, 430)
    billing, other = overview.readers("orders")
    assert billing == ReaderLag("billing", True, 37, 430, None, False, None, None, billing.last_at, 5)
    assert (other.name, other.is_group, other.lag) == ("other at 10.0.0.1", False, 9)
    assert {client.client_id: client.group for client in overview.clients("orders")} == {
        "c-1": "billing", "c-2": "billing", "other": None,
    }  # fmt: skip


def test_a_client_id_in_two_groups_reads_for_neither() -> None:
    beats = [request(n, api="Heartbeat", api_key=12, group_id=f"g-{n}") for n in (1, 2)]
    overview = feed(TopicsOverview(), [*beats, *fetched(3, entry(bytes=1, lag=5))])
    [reader] = overview.readers("orders")
    assert (reader.name, reader.is_group) == ("shop at 10.0.0.1", False)


def test_partitions_as_far_as_lines_tell() -> None:
    overview = feed(TopicsOverview(), [
        *produced(1, entry(bytes=300, records=3, partitions=(0, 5), partition_bytes=[100, 200])),
        *produced(2, entry(bytes=50, records=2, partitions=(5,), partition_bytes=[50])),
        *fetched(3, entry(bytes=70, records=1, lag=4, partitions=(5,), partition_bytes=[70])),
    ])  # fmt: skip
    at = BEGAN + 1_000_000
    assert overview.partitions("orders") == [
        PartitionSummary(0, 100, 0, None, None, None, None, None, BEGAN, 0),
        PartitionSummary(5, 250, 70, 2, 1, 4, None, None, at, 2),
    ]  # fmt: skip
    assert overview.partitions("other") == overview.clients("other") == overview.readers("other") == []


def test_an_id_whose_name_becomes_known_is_one_topic() -> None:
    nameless = entry(None, topic_id=ID, bytes=10, records=1, lag=3)
    named = entry("orders", topic_id=ID, bytes=10, records=1)
    before, metadata = fetched(1, nameless), request(2, api="Metadata", api_key=3)
    overview = feed(TopicsOverview(), before)
    [row] = overview.rows()
    assert (row.topic, row.topic_id) == (None, ID)
    assert overview.readers(ID) != []
    after = [*before, metadata, response(metadata, topics=[entry(topic_id=ID, partitions=())])]
    [row] = feed(TopicsOverview(), after).rows()
    assert (row.topic, row.topic_id, row.fetched.records, row.lag) == ("orders", ID, 1, 3)
    [row] = feed(TopicsOverview(), [*produced(0, named), *before, *fetched(3, named), *fetched(4, nameless)]).rows()
    assert (row.topic, row.produced.records, row.fetched.records) == ("orders", 1, 3)
    assert sum(row.fetched.minute) == 3


def test_both_under_the_id_and_under_the_name() -> None:
    nameless = entry(
        None, topic_id=ID, bytes=10, records=1, compression=["zstd"], partitions=(1,), partition_bytes=[10]
    )
    overview = feed(TopicsOverview(), [
        *fetched(1, nameless, client_id="early"), *produced(2, entry(bytes=5, records=1), at=1),
        *fetched(3, entry(topic_id=ID, bytes=0), at=2),
    ])  # fmt: skip
    [row] = overview.rows()
    assert (row.fetched.requests, row.fetched.empty, row.fetched.compression) == (2, 1, (("zstd", 1),))
    assert (row.first_row, row.last_row, row.consumers) == (0, 2, 2)
    assert sum(row.fetched.minute) == 1
    assert [(partition.partition, partition.fetched_bytes) for partition in overview.partitions("orders")] == [
        (0, 0),
        (1, 10),
    ]


def test_no_id_is_nobodys_id() -> None:
    none = "AAAAAAAAAAAAAAAAAAAAAA"
    lines = [*fetched(1, entry("orders", topic_id=none, bytes=1)), *fetched(2, entry(None, topic_id=none, bytes=1))]
    assert [(row.topic, row.fetched.bytes) for row in feed(TopicsOverview(), lines).rows()] == [
        ("orders", 1),
        (None, 1),
    ]


def test_a_fetch_that_names_nothing_goes_on_with_its_session() -> None:
    both = [entry("orders"), entry("payments")]
    first = fetched(1, entry("orders", bytes=5, records=1), asks=both)
    lines = [*first, *fetched(2, asks=[]), *fetched(3, asks=[])]
    rows = feed(TopicsOverview(), lines).rows()
    assert [(row.topic, row.fetched.requests, row.fetched.empty) for row in rows] == [("orders", 3, 2)]


def test_a_session_ends_with_its_connection() -> None:
    lines = [*fetched(1, entry("orders", bytes=5, records=1), asks=[entry("orders")]), opened(), *fetched(2, asks=[])]
    [row] = feed(TopicsOverview(), lines).rows()
    assert (row.fetched.requests, row.fetched.empty) == (1, 0)


def test_errors_go_to_the_topic_that_they_stand_at() -> None:
    two = [entry("orders", bytes=0), entry("payments", bytes=0)]
    asked = request(1, topics=two)
    refused = ErrorEntry("responses[1].partitions[0].error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")
    several = ErrorEntry("groups[1].topics[0].partitions[0].error_code", 29, "TOPIC_AUTHORIZATION_FAILED")
    own = ErrorEntry("error_code", 70, "FETCH_SESSION_ID_NOT_FOUND")
    answer = response(asked, topics=two, errors=[refused, refused, several, own])
    orders, payments = feed(TopicsOverview(), [asked, answer]).rows()
    assert orders.errors == ()
    assert payments.errors == (("UNKNOWN_TOPIC_OR_PARTITION", 1),)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("responses[0].partition_responses[0].error_code", False),
        ("responses[0].partition_responses[0].error_code responses[1].partition_responses[0].error_code", True),
    ],
)
def test_an_answer_to_a_produce_for_several_topics_may_have_another_order(error: str, told: bool) -> None:
    lines = produced(1, entry("orders", bytes=1), entry("payments", bytes=1), error=error)
    assert [bool(row.errors) for row in feed(TopicsOverview(), lines).rows()] == [told, told]


def test_refused_records_are_not_written() -> None:
    topic_entry = entry("orders", bytes=100, records=2, batches=1)
    refused = "responses[0].partition_responses[0].error_code"
    overview = feed(
        TopicsOverview(),
        [
            *produced(1, topic_entry, error=refused),
            *produced(2, topic_entry, at=2, error=refused),
            *produced(3, topic_entry),
        ],
    )
    [row] = overview.rows()
    assert (row.produced.records, row.produced.bytes, sum(row.produced.minute)) == (2, 100, 2)
    assert (row.produced.refused_records, row.produced.refused_bytes, row.produced.requests) == (4, 200, 3)
    assert [(client.produced_records, client.produced_bytes) for client in overview.clients("orders")] == [(2, 100)]
    assert [(partition.produced_records, partition.produced_bytes) for partition in overview.partitions("orders")] == [
        (2, 100)
    ]


def test_refused_partitions_count_by_their_number() -> None:
    four = entry("orders", partitions=(0, 1, 2, 3), bytes=100, records=8)
    [row] = feed(TopicsOverview(), produced(1, four, error="responses[0].partition_responses[3].error_code")).rows()
    assert (row.produced.records, row.produced.refused_records) == (6, 2)


def test_records_whose_response_comes_too_late_are_stored() -> None:
    asked, answer = produced(1, entry("orders", bytes=100, records=2))
    assert isinstance(answer, ResponseLine)
    answer.errors = [ErrorEntry("responses[0].partition_responses[0].error_code", 7, "REQUEST_TIMED_OUT")]
    [row] = feed(TopicsOverview(), [asked, answer]).rows()
    assert (row.produced.records, row.produced.refused_records) == (2, 0)


def test_a_topic_that_is_only_refused_is_listed() -> None:
    asked = request(1, api="Metadata", api_key=3, topics=[entry("none", partitions=())])
    answer = response(asked, topics=asked.topics, errors=[ErrorEntry("topics[0].error_code", 3, "UNKNOWN")])
    [row] = feed(TopicsOverview(), [asked, answer]).rows()
    assert (row.topic, row.errors, row.last_row) == ("none", (("UNKNOWN", 1),), 0)


_names = st.none() | st.sampled_from(["a", "b", "\x1b", "x" * 400])
_ids = st.none() | st.sampled_from(["", ID, "i"])
_numbers = st.one_of(st.none(), st.integers(-2, 5), st.sampled_from([2**63, -(2**63), 2**31]))
_entries = st.lists(
    st.builds(
        TopicEntry, _names, _ids, st.lists(st.integers(-1, 3), max_size=3), _numbers, _numbers, _numbers,
        st.lists(st.sampled_from(["lz4", "\ud800"]), max_size=2), st.lists(st.integers(-9, 2**63), max_size=4),
        _numbers,
    ),
    max_size=3,
)  # fmt: skip
_errors = st.lists(
    st.builds(
        ErrorEntry, st.sampled_from(["", "topics[0].x", "responses[9].x", "responses[1]", "topics[99999999999]"]),
        st.just(1), st.text(max_size=2),
    ),
    max_size=3,
)  # fmt: skip
_torn = st.lists(
    st.tuples(
        st.builds(
            lambda ask, api, entries, errors, group, at: (
                request(1, at=at, api=api, topics=entries, group_id=group)
                if ask
                else response(request(1, at=at, api=api), topics=entries, errors=errors, group_id=group)
            ),
            st.booleans(), st.sampled_from(["Produce", "Fetch", "ShareFetch", "Metadata", "Heartbeat"]),
            _entries, _errors, st.none() | st.sampled_from(["", "g"]), st.integers(-(10**6), 10**6),
        ),
        st.integers(0, 9),
    ),
    max_size=30,
)  # fmt: skip


@given(st.one_of(_torn, any_lines))
def test_torn_lines_never_raise(lines: list[tuple[Line, int]]) -> None:
    overview = feed_torn(TopicsOverview(), lines)
    for now in (None, 0, BEGAN + 10 * SECOND):
        for row in overview.rows(now):
            name = row.topic if row.topic is not None else row.topic_id or ""
            overview.partitions(name), overview.clients(name), overview.readers(name)


_COLUMNS = ("ages_ms", "append_time", "lag", "bytes", "partition_bytes")


def stored(number: int, offset: int, *, at: float, took: float = 0.01, partition: int = 0, **more: Any) -> list[Line]:
    """A Produce whose response has an offset."""
    asked = request(number, at=at, api="Produce", api_key=0, topics=[entry(bytes=9, partitions=(partition,))], **more)
    return [
        asked,
        response(
            asked,
            after_us=int(took * 1_000_000),
            topics=[entry(bytes=9, partitions=(partition,), partition_bytes=[9], offsets=[offset])],
        ),
    ]


def brought(number: int, *offsets: int | None, at: float, **more: Any) -> list[Line]:
    """A Fetch whose response, a moment later, has the batches of partitions 0, 1 ... with these offsets."""
    columns = {name: more.pop(name) for name in _COLUMNS if name in more}
    numbers = tuple(range(len(offsets)))
    asked = request(number, at=at, topics=[entry(partitions=numbers)], **more)
    brings = entry(partitions=numbers, offsets=list(offsets), **{"bytes": 9, "lag": 0, **columns})
    return [asked, response(asked, after_us=0, topics=[brings])]


def test_a_delivery_is_from_the_produce_request_to_the_fetch_response() -> None:
    overview = feed(TopicsOverview(), [
        *stored(1, 70, at=0), *stored(2, 71, at=1, partition=1), *brought(3, 70, 71, at=3), *brought(4, 70, at=9),
    ])  # fmt: skip
    [row] = overview.rows()
    assert (row.delivery_us, row.delivery_max_us) == (9_000_000, 9_000_000)
    assert [partition.delivery_us for partition in overview.partitions("orders")] == [9_000_000, 2_000_000]
    [reader] = overview.readers("orders")
    assert (reader.delivery_us, reader.delivery_max_us) == (9_000_000, 9_000_000)


def test_a_consumer_may_have_it_before_the_producer_has_its_response() -> None:
    row = only(brought(1, 70, at=0.5), stored(2, 70, at=0, took=1))
    assert row.delivery_us == 500_000


@pytest.mark.parametrize("other", [{"server": "10.0.0.3:9092"}, {"partition": 1}])
def test_other_batches_are_not_taken_for_it(other: dict[str, Any]) -> None:
    assert only(stored(1, 70, at=0, **other), brought(2, 70, None, at=1)).delivery_us is None
    assert only(stored(1, 71, at=0), brought(2, 70, at=1)).delivery_us is None


def test_a_partition_has_unread_records_until_a_response_has_some() -> None:
    before = [*stored(1, 70, at=0), *stored(2, 9, at=1, partition=1), *brought(3, 70, 9, at=2, partition_bytes=[4, 5])]
    overview = feed(TopicsOverview(), before)
    assert [partition.unread_since for partition in overview.partitions("orders")] == [None, None]
    overview = feed(TopicsOverview(), [*before, *stored(4, 10, at=5, partition=1), *stored(5, 11, at=9, partition=1)])
    first, second = overview.partitions("orders")
    assert (first.unread_since, first.unread_bytes) == (None, 0)
    assert (second.unread_since, second.unread_bytes) == (BEGAN + 5_000_000_000, 18)


def test_a_response_after_the_produce_request_may_have_its_records() -> None:
    overview = feed(TopicsOverview(), [*brought(1, 70, at=0.5), *stored(2, 70, at=0, took=1)])
    assert overview.partitions("orders")[0].unread_since is None


def test_what_was_read_long_before_was_another_batch() -> None:
    assert only(brought(1, 70, at=0), stored(2, 70, at=50, took=1)).delivery_us is None


def test_a_reader_is_as_far_behind_as_its_oldest_record_until_it_has_read_everything() -> None:
    late = brought(1, 5, 6, at=0, ages_ms=[100, 90_000], append_time=True, lag=7)
    overview = feed(TopicsOverview(), late)
    [reader] = overview.readers("orders")
    assert (reader.age_ms, reader.append_time) == (90_000, True)
    assert overview.rows()[0].age_ms == 90_000
    [done] = feed(TopicsOverview(), [*late, *brought(2, None, None, at=1, bytes=0)]).rows()
    assert done.age_ms is None
    [waits] = feed(TopicsOverview(), [*late, *brought(2, None, None, at=1, bytes=0, lag=3)]).rows()
    assert waits.age_ms == 90_000


def test_a_name_of_many_ids_is_one_topic_and_no_more_memory() -> None:
    overview, used = TopicsOverview(), []
    tracemalloc.start()
    for number in range(300):
        nameless, metadata = entry(None, topic_id=f"{number}", bytes=1, records=1), request(number, api="Metadata")
        named = response(metadata, topics=[entry(topic_id=f"{number}")])
        for line in (*fetched(number, nameless), named):
            overview.observe(line, number, time_of(line.ts))
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    [row] = overview.rows()
    assert (row.fetched.records, sum(row.fetched.minute), sum(row.fetched.all_time)) == (300, 300, 300)
    assert used[299] < used[99] + 100_000


def test_of_many_topics_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100
    monkeypatch.setattr(topics, "MAX_TOPICS", most)
    monkeypatch.setattr(topics, "MAX_PARTS", 100)
    monkeypatch.setattr(topics, "MAX_IDS", 100)
    tracemalloc.start()
    overview, used = TopicsOverview(), []
    for number in range(3 * most):
        names = [entry(f"{number}" + "x" * MAX_NAME_LENGTH, bytes=1, records=1, lag=1, partitions=tuple(range(20)),
                       partition_bytes=[1] * 20)]  # fmt: skip
        for line in produced(number, *names, client_id=f"{number}") + fetched(number, *names, connection_id="n-2"):
            overview.observe(line, number, time_of(line.ts))
        if (number + 1) % most == 0:
            used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert (len(overview.rows()), overview.evicted) == (most, 2 * most)
    assert overview.rows()[0].partitions == topics.MIN_PARTITIONS
    assert used[2] < used[1] * 1.05
