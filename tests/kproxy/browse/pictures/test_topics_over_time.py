"""Charts of topics over time are compared with the lines and the filtered rows of a capture."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kproxy.browse.pictures.topics_over_time import topics_over_time
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import RequestLine, ResponseLine, TopicEntry
from tests.kproxy.browse.pictures.test_over_time import count_selected, part_filter, run_to_end
from tests.kproxy.browse.sessions import request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA, lines_of


def draw_topics_over_time(session: BrowseSession, part_count: int = 12) -> dict[str, Any]:
    data: dict[str, Any] = run_to_end(topics_over_time(session, session.view, part_count))
    return data


@pytest.mark.slow
def test_bytes_of_produce_requests_and_fetch_responses_are_counted() -> None:
    path = DATA / "pcap" / "java-4.3.1.pcap.gz"
    data = draw_topics_over_time(session_of_capture(path))
    expected: dict[str, Counter[str | None]] = {"request": Counter(), "response": Counter()}
    for line in lines_of(path):
        if isinstance(line, RequestLine) and line.api == "Produce":
            expected["request"].update({topic.topic: topic.bytes or 0 for topic in line.topics})
        elif isinstance(line, ResponseLine) and line.api in ("Fetch", "ShareFetch"):
            expected["response"].update({topic.topic: topic.bytes or 0 for topic in line.topics})
    for direction, kind in (("produced", "request"), ("fetched", "response")):
        series = data["series"][direction]
        actual = {topic: sum(values) for (_, topic), values in zip(series["names"], series["values"], strict=True)}
        assert actual == +expected[kind]


def fetch_exchange(*lags: tuple[list[int], int | None], at: float = 0, topic: str | None = "orders") -> list[Any]:
    request_line = request(int(at * 100), at=at)
    topics = [TopicEntry(topic, "id", partitions=partitions, bytes=5, lag=lag) for partitions, lag in lags]
    return [request_line, response(request_line, after_us=1, topics=topics)]


def test_lag_is_the_maximum_per_partition_and_can_be_filtered() -> None:
    exchanges = [
        fetch_exchange(([3], 7)),
        fetch_exchange(([3], 9), ([4], 0), at=0.1),
        fetch_exchange(([0, 1], 20), at=9),
        fetch_exchange(([3], None), at=10),
    ]
    session = session_of([line for exchange in exchanges for line in exchange])
    data = draw_topics_over_time(session, 2)
    assert data["lag"] == {
        "names": [["topic", "orders", -1], ["topic", "orders", 3], ["topic", "orders", 4]],
        "values": [[None, 20], [9, None], [0, None]],
        "others": 0,
    }
    assert count_selected(session, f'topic="orders" and partition=3 and lag>=9 and {part_filter(data, 0)}') == 1
    assert data["series"]["fetched"] == {"names": [["topic", "orders"]], "values": [[15, 10]], "others": 0}


def test_topic_without_a_known_name_is_shown_by_its_id() -> None:
    data = draw_topics_over_time(session_of(fetch_exchange(([3], 7), topic=None)), 1)
    assert data["lag"]["names"] == [["topic_id", "id", 3]]


def test_session_without_rows_has_no_series() -> None:
    data = draw_topics_over_time(session_of([]), 1)
    assert data["series"]["produced"] == data["lag"] == {"names": [], "values": [], "others": 0}
