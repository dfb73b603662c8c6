"""Topics over time, against the lines of a capture and the rows that the filter of each mark selects."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kproxy.browse.pictures.topics_over_time import topics_over_time
from kproxy.browse.session import BrowseSession
from kproxy.trace.lines import RequestLine, ResponseLine, TopicEntry
from tests.kproxy.browse.pictures.test_over_time import between, finished, selected
from tests.kproxy.browse.sessions import request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA, lines_of


def picture(session: BrowseSession, parts: int = 12) -> dict[str, Any]:
    made: dict[str, Any] = finished(topics_over_time(session, session.view, parts))
    return made


def test_bytes_are_those_of_produce_requests_and_fetch_responses() -> None:
    path = DATA / "pcap" / "java-4.3.1.pcap.gz"
    made = picture(session_of_capture(path))
    wanted: dict[str, Counter[str | None]] = {"request": Counter(), "response": Counter()}
    for line in lines_of(path):
        if isinstance(line, RequestLine) and line.api == "Produce":
            wanted["request"].update({topic.topic: topic.bytes or 0 for topic in line.topics})
        elif isinstance(line, ResponseLine) and line.api in ("Fetch", "ShareFetch"):
            wanted["response"].update({topic.topic: topic.bytes or 0 for topic in line.topics})
    for direction, kind in (("produced", "request"), ("fetched", "response")):
        series = made["series"][direction]
        found = {topic: sum(values) for (_, topic), values in zip(series["names"], series["values"], strict=True)}
        assert found == +wanted[kind]


def fetched(*lags: tuple[list[int], int | None], at: float = 0, topic: str | None = "orders") -> list[Any]:
    asked = request(int(at * 100), at=at)
    topics = [TopicEntry(topic, "id", partitions=numbers, bytes=5, lag=lag) for numbers, lag in lags]
    return [asked, response(asked, after_us=1, topics=topics)]


def test_lag_is_the_highest_of_each_partition_and_its_filter_finds_it() -> None:
    frames = [
        fetched(([3], 7)),
        fetched(([3], 9), ([4], 0), at=0.1),
        fetched(([0, 1], 20), at=9),
        fetched(([3], None), at=10),
    ]
    session = session_of([line for pair in frames for line in pair])
    made = picture(session, 2)
    assert made["lag"] == {
        "names": [["topic", "orders", -1], ["topic", "orders", 3], ["topic", "orders", 4]],
        "values": [[None, 20], [9, None], [0, None]],
        "others": 0,
    }
    assert selected(session, f'topic="orders" and partition=3 and lag>=9 and {between(made, 0)}') == 1
    assert made["series"]["fetched"] == {"names": [["topic", "orders"]], "values": [[15, 10]], "others": 0}


def test_a_topic_without_a_known_name_has_its_id() -> None:
    made = picture(session_of(fetched(([3], 7), topic=None)), 1)
    assert made["lag"]["names"] == [["topic_id", "id", 3]]


def test_without_rows_there_are_no_numbers() -> None:
    made = picture(session_of([]), 1)
    assert made["series"]["produced"] == made["lag"] == {"names": [], "values": [], "others": 0}
