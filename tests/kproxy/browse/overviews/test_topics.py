"""The overview of topics is compared with a simple recount, and is fed inconsistent, hostile and very many lines."""

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
from tests.kproxy.browse.sample_overviews import captured, feed, feed_torn, open_line
from tests.kproxy.browse.sample_overviews import inconsistent_lines as any_lines
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response

ID = "ku28YVRUQNy79bpH25sIdw"


def entry(topic: str | None = "orders", *, partitions: tuple[int, ...] = (0,), **more: object) -> TopicEntry:
    return TopicEntry(topic, partitions=list(partitions), **more)  # type: ignore[arg-type]


def produce_exchange(
    number: int, *entries: TopicEntry, at: float = 0, error_paths: str = "", **more: object
) -> list[Line]:
    """Return a Produce request and its response, which repeats the entries of the request."""
    request_line = request(number, at=at, api="Produce", api_key=0, topics=list(entries), **more)
    errors = [ErrorEntry(path, 1, "NOT_LEADER_OR_FOLLOWER") for path in error_paths.split()]
    return [request_line, response(request_line, topics=list(entries), errors=errors)]


def fetch_exchange(number: int, *entries: TopicEntry, at: float = 0, requested: list[TopicEntry] | None = None,
            **more: object) -> list[Line]:  # fmt: skip
    """Return a Fetch request and its response; it requests what it receives unless `requested` is given."""
    requested_topics = (
        [TopicEntry(entry.topic, entry.topic_id, entry.partitions) for entry in entries]
        if requested is None
        else requested
    )
    request_line = request(number, at=at, topics=requested_topics, **more)
    return [request_line, response(request_line, topics=list(entries) or requested_topics)]


def single_topic(*exchanges: list[Line], now: int | None = None) -> TopicSummary:
    [row] = feed(TopicsOverview(), [line for exchange in exchanges for line in exchange]).rows(now)
    return row


def test_counts_of_real_captures_equal_a_simple_recount() -> None:
    rows = {row.topic or row.topic_id: row for row in feed(TopicsOverview(), captured()).rows()}
    written: dict[str | None, Counter[str]] = defaultdict(Counter)
    fetched: dict[str | None, Counter[str]] = defaultdict(Counter)
    for line in captured():
        if isinstance(line, RequestLine) and line.api == "Produce":
            entries, totals = line.topics, written
        elif isinstance(line, ResponseLine) and line.api == "Fetch":
            entries, totals = line.topics, fetched
        else:
            continue
        for topic_entry in entries:
            counts = {
                "records": topic_entry.records or 0,
                "bytes": topic_entry.bytes or 0,
                "batches": topic_entry.batches or 0,
            }
            totals[topic_entry.topic or topic_entry.topic_id].update(
                counts | {"requests": 1, "empty": int(not topic_entry.bytes)}
            )
    assert len(written) > 3
    assert len(fetched) > 3
    assert {*written, *fetched} <= rows.keys()
    for name, row in rows.items():
        for traffic, totals in ((row.produced, written), (row.fetched, fetched)):
            expected = totals[name]
            transferred = traffic.records + traffic.refused_records, traffic.bytes + traffic.refused_bytes
            assert (*transferred, traffic.batches) == (expected["records"], expected["bytes"], expected["batches"])
            assert traffic.requests >= expected["requests"]  # also counts fetch session requests that name no topic
            assert traffic.requests - traffic.empty == expected["requests"] - expected["empty"]
            assert sum(traffic.all_time) == traffic.records


def test_requests_records_bytes_codecs_and_rates_are_counted() -> None:
    orders = entry(bytes=1000, records=10, batches=2, compression=["lz4"])
    row = single_topic(
        produce_exchange(1, orders, at=0), produce_exchange(2, orders, at=10),
        produce_exchange(3, entry(bytes=50, records=1, batches=1), at=20),
        fetch_exchange(4, orders, at=25), fetch_exchange(5, entry(bytes=0, records=0), at=29),
    )  # fmt: skip
    assert (row.topic, row.produced.requests, row.produced.records, row.produced.bytes) == ("orders", 3, 21, 2050)
    assert (row.produced.batches, row.produced.compression, row.produced.empty) == (5, (("lz4", 2),), 0)
    assert (row.fetched.requests, row.fetched.empty, row.fetched.records) == (2, 1, 10)
    assert row.produced.minute[-30:] == (10, *[0] * 9, 10, *[0] * 9, 1, *[0] * 9)
    assert row.produced.records_rate == pytest.approx(21 / 29, rel=0.02)
    assert (row.producers, row.consumers, row.first_row, row.last_row) == (1, 1, 0, 4)
    assert row.last_at == BEGAN + 29_001_000_000


def test_rate_falls_to_zero_without_records() -> None:
    row = single_topic(produce_exchange(1, entry(bytes=1000, records=10)), now=BEGAN + 120 * SECOND)
    assert (row.produced.records_rate, sum(row.produced.minute), row.produced.records) == (0, 0, 10)


def test_clients_of_one_group_share_its_lag() -> None:
    heartbeats = [request(90 + n, api="Heartbeat", api_key=12, group_id="billing", client_id=f"c-{n}") for n in (1, 2)]
    overview = feed(TopicsOverview(),
                    [*fetch_exchange(1, entry(bytes=1, records=1, lag=500, partitions=(0, 1)), client_id="c-1"),
                    *heartbeats,
                    *fetch_exchange(2, entry(bytes=1, records=1, lag=400, partitions=(0, 1)), client_id="c-1"),
                    *fetch_exchange(3, entry(bytes=1, records=1, lag=30, partitions=(2,)), client_id="c-2"),
                    *fetch_exchange(4, entry(bytes=1, records=1, lag=7, partitions=(1, 0)), client_id="c-1"),
                    *fetch_exchange(5, entry(bytes=0, records=0, lag=9), client_id="other"), ])  # fmt: skip
    [row] = overview.rows()
    assert (row.lag, row.lag_max) == (37, 430)
    billing, ungrouped = overview.readers("orders")
    assert billing == ReaderLag("billing", True, 37, 430, 0, 0, 0, None, False, None, None, billing.last_at, 5)
    assert (ungrouped.name, ungrouped.is_group, ungrouped.lag) == ("other at 10.0.0.1", False, 9)
    assert {client.client_id: client.group for client in overview.clients("orders")} == {
        "c-1": "billing", "c-2": "billing", "other": None,
    }  # fmt: skip


def test_lag_of_a_group_is_the_sum_over_its_topics() -> None:
    heartbeats = [
        request(number, api="Heartbeat", api_key=12, client_id=f"c-{number}", group_id=f"g-{number}")
        for number in (1, 2)
    ]
    small, large = entry("a", bytes=1, records=1, lag=3), entry("b", bytes=1, records=1, lag=40)
    lines = [
        *heartbeats,
        *fetch_exchange(3, small, large, client_id="c-1"),
        *fetch_exchange(4, small, client_id="c-2"),
        *fetch_exchange(5, large, client_id="other"),
        *fetch_exchange(6, entry("b", bytes=1, records=1, lag=2), client_id="c-1"),
    ]
    assert feed(TopicsOverview(), lines).group_lags() == {"g-1": (5, "b", 40), "g-2": (3, "a", 3)}


def stored_records(number: int, *partition_bytes: int, at: float, records: int, after_s: float = 0.01) -> list[Line]:
    """Return a Produce exchange whose response has an offset for each partition, from 0."""
    partitions, size = tuple(range(len(partition_bytes))), sum(partition_bytes)
    request_line = request(number, at=at, api="Produce", api_key=0,
                           topics=[entry(bytes=size, records=records, partitions=partitions)])  # fmt: skip
    stored = entry(bytes=size, records=records, partitions=partitions, partition_bytes=list(partition_bytes),
                   offsets=[7] * len(partitions))  # fmt: skip
    return [request_line, response(request_line, after_us=int(after_s * 1_000_000), topics=[stored])]


def billing_fetch(number: int, *offsets: int | None, at: float, lag: int = 0) -> list[Line]:
    heartbeat = request(100 + number, at=at, api="Heartbeat", api_key=12, group_id="billing", client_id="reader")
    return [heartbeat, *fetched_batches(number, *offsets, at=at, lag=lag, client_id="reader")]


def test_records_written_after_the_last_fetch_response_of_a_group_are_lag() -> None:
    lines = [*billing_fetch(1, 5, 6, at=0, lag=2), *stored_records(2, 30, 10, at=1, records=8)]
    overview = feed(TopicsOverview(), lines)
    [reader] = overview.readers("orders")
    assert (reader.lag, reader.stored_since) == (10, 8)
    assert [(topic, lag.lag) for topic, lag in overview.topics_of_group("billing")] == [("orders", 10)]
    overview = feed(TopicsOverview(), [*lines, *billing_fetch(3, 7, at=2)])  # partition 0: 2 + 6 of the records
    [reader] = overview.readers("orders")
    assert (reader.lag, reader.stored_since, reader.lag_max) == (2, 2, 10)


@pytest.mark.parametrize(
    "stored", [stored_records(2, 9, at=0.4, records=8, after_s=2), stored_records(2, 0, 9, at=1, records=8)],
    ids=["requested before the Fetch response", "another partition"],
)  # fmt: skip
def test_records_that_a_group_may_have_read_or_does_not_read_are_not_lag(stored: list[Line]) -> None:
    [reader] = feed(TopicsOverview(), [*billing_fetch(1, 5, at=0.5), *stored]).readers("orders")
    assert (reader.lag, reader.stored_since) == (0, 0)


@pytest.mark.parametrize("has_lag", [True, False])
def test_empty_response_of_a_session_is_the_last_fetch_only_of_known_readers(has_lag: bool) -> None:
    first = fetch_exchange(1, entry(bytes=9, records=1, **({"lag": 4} if has_lag else {})), connection_id="n-1")
    empty_request = request(2, at=5, connection_id="n-1")
    overview = feed(TopicsOverview(), [*first, empty_request, response(empty_request)])
    assert [(reader.lag, reader.last_at // SECOND) for reader in overview.readers("orders")] == (
        [(4, BEGAN // SECOND + 5)] if has_lag else []
    )
    assert overview.rows()[0].lag == (4 if has_lag else None)


def test_time_that_records_wait_for_the_next_fetch_is_measured() -> None:
    lines = [*billing_fetch(1, 5, at=0), *stored_records(2, 9, at=1, records=8), *billing_fetch(3, 6, at=5)]
    [reader] = feed(TopicsOverview(), lines).readers("orders")
    assert reader.longest_idle_ns == pytest.approx(5 * SECOND, rel=0.01)
    assert reader.slow_since == pytest.approx(BEGAN, abs=SECOND // 10)
    without_records = [*billing_fetch(1, 5, at=0), *billing_fetch(3, 6, at=5)]
    [reader] = feed(TopicsOverview(), without_records).readers("orders")
    assert reader.longest_idle_ns == 0


def test_lag_of_a_client_without_a_group_is_that_of_its_last_fetch_response() -> None:
    lines = [*fetched_batches(1, 5, at=0, lag=3), *stored_records(2, 9, at=1, records=8)]
    [reader] = feed(TopicsOverview(), lines).readers("orders")
    assert (reader.lag, reader.stored_since) == (3, 0)


def test_topics_of_a_client_are_those_that_it_writes_or_reads() -> None:
    lines = [*produce_exchange(1, entry("orders", bytes=10, records=2)), *fetch_exchange(2, entry("carts", bytes=1))]
    [topics] = feed(TopicsOverview(), lines).topics_by_client().values()
    assert [(topic, client.produced_records, client.fetched_bytes) for topic, client in topics] == [
        ("orders", 2, 0), ("carts", 0, 1),
    ]  # fmt: skip


def test_client_id_in_two_groups_belongs_to_neither() -> None:
    heartbeats = [request(n, api="Heartbeat", api_key=12, group_id=f"g-{n}") for n in (1, 2)]
    overview = feed(TopicsOverview(), [*heartbeats, *fetch_exchange(3, entry(bytes=1, lag=5))])
    [reader] = overview.readers("orders")
    assert (reader.name, reader.is_group) == ("shop at 10.0.0.1", False)


def test_partitions_show_only_values_found_in_lines() -> None:
    overview = feed(TopicsOverview(),
                    [*produce_exchange(1, entry(bytes=300, records=3, partitions=(0, 5), partition_bytes=[100, 200])),
                    *produce_exchange(2, entry(bytes=50, records=2, partitions=(5,), partition_bytes=[50])),
                    *fetch_exchange(3, entry(bytes=70, records=1, lag=4, partitions=(5,), partition_bytes=[70])),
                    ])  # fmt: skip
    fetched_at = BEGAN + 1_000_000
    assert overview.partitions("orders") == [
        PartitionSummary(0, 100, 0, None, None, None, None, None, BEGAN, 0),
        PartitionSummary(5, 250, 70, 2, 1, 4, None, None, fetched_at, 2),
    ]  # fmt: skip
    assert overview.partitions("other") == overview.clients("other") == overview.readers("other") == []


def test_nameless_topic_is_merged_once_its_name_is_known() -> None:
    nameless = entry(None, topic_id=ID, bytes=10, records=1, lag=3)
    named = entry("orders", topic_id=ID, bytes=10, records=1)
    fetch, metadata = fetch_exchange(1, nameless), request(2, api="Metadata", api_key=3)
    overview = feed(TopicsOverview(), fetch)
    [row] = overview.rows()
    assert (row.topic, row.topic_id) == (None, ID)
    assert overview.readers(ID) != []
    lines = [*fetch, metadata, response(metadata, topics=[entry(topic_id=ID, partitions=())])]
    [row] = feed(TopicsOverview(), lines).rows()
    assert (row.topic, row.topic_id, row.fetched.records, row.lag) == ("orders", ID, 1, 3)
    [row] = feed(
        TopicsOverview(), [*produce_exchange(0, named), *fetch, *fetch_exchange(3, named), *fetch_exchange(4, nameless)]
    ).rows()
    assert (row.topic, row.produced.records, row.fetched.records) == ("orders", 1, 3)
    assert sum(row.fetched.minute) == 3


def test_topic_first_seen_by_id_and_then_by_name_is_listed_once() -> None:
    nameless = entry(
        None, topic_id=ID, bytes=10, records=1, compression=["zstd"], partitions=(1,), partition_bytes=[10]
    )
    overview = feed(TopicsOverview(),
                    [*fetch_exchange(1, nameless, client_id="early"),
                    *produce_exchange(2, entry(bytes=5, records=1), at=1),
                    *fetch_exchange(3, entry(topic_id=ID, bytes=0), at=2), ])  # fmt: skip
    [row] = overview.rows()
    assert (row.fetched.requests, row.fetched.empty, row.fetched.compression) == (2, 1, (("zstd", 1),))
    assert (row.first_row, row.last_row, row.consumers) == (0, 2, 2)
    assert sum(row.fetched.minute) == 1
    assert [(partition.partition, partition.fetched_bytes) for partition in overview.partitions("orders")] == [
        (0, 0),
        (1, 10),
    ]


def test_zero_topic_id_identifies_no_topic() -> None:
    zero_id = "AAAAAAAAAAAAAAAAAAAAAA"
    lines = [
        *fetch_exchange(1, entry("orders", topic_id=zero_id, bytes=1)),
        *fetch_exchange(2, entry(None, topic_id=zero_id, bytes=1)),
    ]
    assert [(row.topic, row.fetched.bytes) for row in feed(TopicsOverview(), lines).rows()] == [
        ("orders", 1),
        (None, 1),
    ]


def test_fetch_without_topics_continues_its_session() -> None:
    topics = [entry("orders"), entry("payments")]
    first = fetch_exchange(1, entry("orders", bytes=5, records=1), requested=topics)
    lines = [*first, *fetch_exchange(2, requested=[]), *fetch_exchange(3, requested=[])]
    rows = feed(TopicsOverview(), lines).rows()
    assert [(row.topic, row.fetched.requests, row.fetched.empty) for row in rows] == [("orders", 3, 2)]


def test_fetch_session_ends_with_its_connection() -> None:
    lines = [
        *fetch_exchange(1, entry("orders", bytes=5, records=1), requested=[entry("orders")]),
        open_line(),
        *fetch_exchange(2, requested=[]),
    ]
    [row] = feed(TopicsOverview(), lines).rows()
    assert (row.fetched.requests, row.fetched.empty) == (1, 0)


def test_error_is_counted_for_the_topic_in_its_path() -> None:
    entries = [entry("orders", bytes=0), entry("payments", bytes=0)]
    request_line = request(1, topics=entries)
    topic_error = ErrorEntry("responses[1].partitions[0].error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")
    group_error = ErrorEntry("groups[1].topics[0].partitions[0].error_code", 29, "TOPIC_AUTHORIZATION_FAILED")
    top_level_error = ErrorEntry("error_code", 70, "FETCH_SESSION_ID_NOT_FOUND")
    response_line = response(
        request_line, topics=entries, errors=[topic_error, topic_error, group_error, top_level_error]
    )
    orders, payments = feed(TopicsOverview(), [request_line, response_line]).rows()
    assert orders.errors == ()
    assert payments.errors == (("UNKNOWN_TOPIC_OR_PARTITION", 1),)


@pytest.mark.parametrize(
    ("error_paths", "has_errors"),
    [
        ("responses[0].partition_responses[0].error_code", False),
        ("responses[0].partition_responses[0].error_code responses[1].partition_responses[0].error_code", True),
    ],
)
def test_error_in_a_produce_response_counts_only_if_every_topic_has_it(error_paths: str, has_errors: bool) -> None:
    lines = produce_exchange(1, entry("orders", bytes=1), entry("payments", bytes=1), error_paths=error_paths)
    assert [bool(row.errors) for row in feed(TopicsOverview(), lines).rows()] == [has_errors, has_errors]


def test_rejected_records_do_not_count_as_produced() -> None:
    topic_entry = entry("orders", bytes=100, records=2, batches=1)
    error_path = "responses[0].partition_responses[0].error_code"
    overview = feed(
        TopicsOverview(),
        [
            *produce_exchange(1, topic_entry, error_paths=error_path),
            *produce_exchange(2, topic_entry, at=2, error_paths=error_path),
            *produce_exchange(3, topic_entry),
        ],
    )
    [row] = overview.rows()
    assert (row.produced.records, row.produced.bytes, sum(row.produced.minute)) == (2, 100, 2)
    assert (row.produced.refused_records, row.produced.refused_bytes, row.produced.requests) == (4, 200, 3)
    assert [(client.produced_records, client.produced_bytes) for client in overview.clients("orders")] == [(2, 100)]
    assert [(partition.produced_records, partition.produced_bytes) for partition in overview.partitions("orders")] == [
        (2, 100)
    ]


def test_rejected_partitions_reduce_the_records_proportionally() -> None:
    topic_entry = entry("orders", partitions=(0, 1, 2, 3), bytes=100, records=8)
    [row] = feed(
        TopicsOverview(), produce_exchange(1, topic_entry, error_paths="responses[0].partition_responses[3].error_code")
    ).rows()
    assert (row.produced.records, row.produced.refused_records) == (6, 2)


def test_records_of_a_timed_out_produce_request_count_as_stored() -> None:
    request_line, response_line = produce_exchange(1, entry("orders", bytes=100, records=2))
    assert isinstance(response_line, ResponseLine)
    response_line.errors = [ErrorEntry("responses[0].partition_responses[0].error_code", 7, "REQUEST_TIMED_OUT")]
    [row] = feed(TopicsOverview(), [request_line, response_line]).rows()
    assert (row.produced.records, row.produced.refused_records) == (2, 0)


def test_topic_with_only_errors_is_listed() -> None:
    request_line = request(1, api="Metadata", api_key=3, topics=[entry("none", partitions=())])
    response_line = response(
        request_line, topics=request_line.topics, errors=[ErrorEntry("topics[0].error_code", 3, "UNKNOWN")]
    )
    [row] = feed(TopicsOverview(), [request_line, response_line]).rows()
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
_inconsistent_lines = st.lists(
    st.tuples(
        st.builds(
            lambda is_request, api, entries, errors, group, at: (
                request(1, at=at, api=api, topics=entries, group_id=group)
                if is_request
                else response(request(1, at=at, api=api), topics=entries, errors=errors, group_id=group)
            ),
            st.booleans(), st.sampled_from(["Produce", "Fetch", "ShareFetch", "Metadata", "Heartbeat"]),
            _entries, _errors, st.none() | st.sampled_from(["", "g"]), st.integers(-(10**6), 10**6),
        ),
        st.integers(0, 9),
    ),
    max_size=30,
)  # fmt: skip


@pytest.mark.slow
@given(st.one_of(_inconsistent_lines, any_lines))
def test_inconsistent_lines_never_raise(lines: list[tuple[Line, int]]) -> None:
    overview = feed_torn(TopicsOverview(), lines)
    for now in (None, 0, BEGAN + 10 * SECOND):
        for row in overview.rows(now):
            name = row.topic if row.topic is not None else row.topic_id or ""
            overview.partitions(name), overview.clients(name), overview.readers(name)


_COLUMNS = ("ages_ms", "append_time", "lag", "bytes", "partition_bytes")


def stored_batch(
    number: int, offset: int, *, at: float, response_after_s: float = 0.01, partition: int = 0, **more: Any
) -> list[Line]:
    """Return a Produce exchange whose response contains the offset of the batch."""
    request_line = request(
        number, at=at, api="Produce", api_key=0, topics=[entry(bytes=9, partitions=(partition,))], **more
    )
    return [
        request_line,
        response(
            request_line,
            after_us=int(response_after_s * 1_000_000),
            topics=[entry(bytes=9, partitions=(partition,), partition_bytes=[9], offsets=[offset])],
        ),
    ]


def fetched_batches(number: int, *offsets: int | None, at: float, **more: Any) -> list[Line]:
    """Return a Fetch exchange whose response has one batch per offset, in partitions 0, 1, and so on."""
    columns = {name: more.pop(name) for name in _COLUMNS if name in more}
    partitions = tuple(range(len(offsets)))
    request_line = request(number, at=at, topics=[entry(partitions=partitions)], **more)
    response_entry = entry(partitions=partitions, offsets=list(offsets), **{"bytes": 9, "lag": 0, **columns})
    return [request_line, response(request_line, after_us=0, topics=[response_entry])]


def test_delivery_time_spans_produce_request_to_fetch_response() -> None:
    overview = feed(TopicsOverview(),
                    [*stored_batch(1, 70, at=0), *stored_batch(2, 71, at=1, partition=1),
                    *fetched_batches(3, 70, 71, at=3), *fetched_batches(4, 70, at=9), ])  # fmt: skip
    [row] = overview.rows()
    assert (row.delivery_us, row.delivery_max_us) == (9_000_000, 9_000_000)
    assert [partition.delivery_us for partition in overview.partitions("orders")] == [9_000_000, 2_000_000]
    [reader] = overview.readers("orders")
    assert (reader.delivery_us, reader.delivery_max_us) == (9_000_000, 9_000_000)


def test_delivery_time_is_measured_even_before_the_produce_response() -> None:
    row = single_topic(fetched_batches(1, 70, at=0.5), stored_batch(2, 70, at=0, response_after_s=1))
    assert row.delivery_us == 500_000


@pytest.mark.parametrize("difference", [{"server": "10.0.0.3:9092"}, {"partition": 1}])
def test_delivery_time_needs_the_same_batch(difference: dict[str, Any]) -> None:
    assert single_topic(stored_batch(1, 70, at=0, **difference), fetched_batches(2, 70, None, at=1)).delivery_us is None
    assert single_topic(stored_batch(1, 71, at=0), fetched_batches(2, 70, at=1)).delivery_us is None


def test_records_are_unread_until_a_fetch_response_contains_them() -> None:
    read_batches = [
        *stored_batch(1, 70, at=0),
        *stored_batch(2, 9, at=1, partition=1),
        *fetched_batches(3, 70, 9, at=2, partition_bytes=[4, 5]),
    ]
    overview = feed(TopicsOverview(), read_batches)
    assert [partition.unread_since for partition in overview.partitions("orders")] == [None, None]
    overview = feed(
        TopicsOverview(),
        [*read_batches, *stored_batch(4, 10, at=5, partition=1), *stored_batch(5, 11, at=9, partition=1)],
    )
    first, second = overview.partitions("orders")
    assert (first.unread_since, first.unread_bytes) == (None, 0)
    assert (second.unread_since, second.unread_bytes) == (BEGAN + 5_000_000_000, 18)


def test_records_fetched_before_their_produce_response_are_not_unread() -> None:
    overview = feed(TopicsOverview(), [*fetched_batches(1, 70, at=0.5), *stored_batch(2, 70, at=0, response_after_s=1)])
    assert overview.partitions("orders")[0].unread_since is None


def test_batch_fetched_long_before_its_produce_request_is_another_batch() -> None:
    assert (
        single_topic(fetched_batches(1, 70, at=0), stored_batch(2, 70, at=50, response_after_s=1)).delivery_us is None
    )


def test_reader_shows_the_age_of_its_oldest_record_until_it_catches_up() -> None:
    old_records = fetched_batches(1, 5, 6, at=0, ages_ms=[100, 90_000], append_time=True, lag=7)
    overview = feed(TopicsOverview(), old_records)
    [reader] = overview.readers("orders")
    assert (reader.age_ms, reader.append_time) == (90_000, True)
    assert overview.rows()[0].age_ms == 90_000
    [finished_topic] = feed(TopicsOverview(), [*old_records, *fetched_batches(2, None, None, at=1, bytes=0)]).rows()
    assert finished_topic.age_ms is None
    [lagging_topic] = feed(
        TopicsOverview(), [*old_records, *fetched_batches(2, None, None, at=1, bytes=0, lag=3)]
    ).rows()
    assert lagging_topic.age_ms == 90_000


@pytest.mark.slow
def test_topic_name_with_many_ids_is_one_topic_and_uses_bounded_memory() -> None:
    overview, memory_used = TopicsOverview(), []
    tracemalloc.start()
    for number in range(300):
        nameless, metadata = entry(None, topic_id=f"{number}", bytes=1, records=1), request(number, api="Metadata")
        named = response(metadata, topics=[entry(topic_id=f"{number}")])
        for line in (*fetch_exchange(number, nameless), named):
            overview.observe(line, number, time_of(line.ts))
        memory_used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    [row] = overview.rows()
    assert (row.fetched.records, sum(row.fetched.minute), sum(row.fetched.all_time)) == (300, 300, 300)
    assert memory_used[299] < memory_used[99] + 100_000


def test_only_the_latest_topics_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 100
    monkeypatch.setattr(topics, "MAX_TOPICS", limit)
    monkeypatch.setattr(topics, "MAX_PARTS", 100)
    monkeypatch.setattr(topics, "MAX_IDS", 100)
    tracemalloc.start()
    overview, memory_used = TopicsOverview(), []
    for number in range(3 * limit):
        entries = [entry(f"{number}" + "x" * MAX_NAME_LENGTH, bytes=1, records=1, lag=1, partitions=tuple(range(20)),
                       partition_bytes=[1] * 20)]  # fmt: skip
        for line in produce_exchange(number, *entries, client_id=f"{number}") + fetch_exchange(
            number, *entries, connection_id="n-2"
        ):
            overview.observe(line, number, time_of(line.ts))
        if (number + 1) % limit == 0:
            memory_used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert (len(overview.rows()), overview.evicted) == (limit, 2 * limit)
    assert overview.rows()[0].partitions == topics.MIN_PARTITIONS
    assert memory_used[2] < memory_used[1] * 1.05
