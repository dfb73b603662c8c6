"""Lines of Produce and Fetch responses have the offsets of their batches, so that readers can match them."""

from kproxy.trace.lines import RequestLine, ResponseLine, TopicEntry
from tests.kproxy.stories import BEGIN, MS, lines_of_story

AT_MS = BEGIN // MS
PRODUCED = '{"records": [{"records": [{"value": "v", "timestamp": %d}]}]}' % AT_MS  # noqa: UP031


def entries(story: str, api: str) -> list[list[TopicEntry]]:
    lines = lines_of_story(story)
    return [line.topics for line in lines if isinstance(line, ResponseLine) and line.api == api]


def test_produce_response_has_the_assigned_offsets() -> None:
    partitions = f'{{"index": 3, {PRODUCED[1:]}, {{"index": 1, {PRODUCED[1:]}'
    lines = lines_of_story(f"""
        > Produce v9 {{"acks": -1, "topic_data": [{{"name": "a", "partition_data": [{partitions}]}},
          {{"name": "b", "partition_data": [{PRODUCED}]}}]}}
        < {{"responses": [{{"name": "b", "partition_responses": [{{"base_offset": -1, "error_code": 7}}]}},
          {{"name": "a", "partition_responses": [
            {{"index": 1, "base_offset": 70}}, {{"index": 3, "base_offset": 5}}]}}]}}
    """)
    [request_line] = [line for line in lines if isinstance(line, RequestLine)]
    [response_line] = [line for line in lines if isinstance(line, ResponseLine)]
    assert [topic.partitions for topic in response_line.topics] == [[3, 1], [0]]
    assert [topic.offsets for topic in response_line.topics] == [[5, 70], []]
    assert [topic.bytes for topic in response_line.topics] == [topic.bytes for topic in request_line.topics]
    assert [topic.offsets for topic in request_line.topics] == [[], []]


def test_finds_topics_without_a_name_by_their_id() -> None:
    topic = "q83vASNFZ4mrze8BI0VniQ"
    [[entry]] = entries(f"""
        > Produce v13 {{"acks": -1, "topic_data": [{{"topic_id": "{topic}", "partition_data": [{PRODUCED}]}}]}}
        < {{"responses": [{{"topic_id": "{topic}", "partition_responses": [{{"base_offset": 12}}]}}]}}
    """, "Produce")  # fmt: skip
    assert entry.offsets == [12]


def test_fetch_response_has_the_age_of_its_records() -> None:
    [[entry], [empty]] = entries(f"""
        > Fetch v4 {{"topics": [{{"topic": "t", "partitions": [{{"partition": 2, "fetch_offset": 9}}]}}]}}
        +2s
        < {{"responses": [{{"topic": "t", "partitions": [{{"partition_index": 2, "high_watermark": 20, "records":
          [{{"base_offset": 9, "records": [{{"value": "v", "timestamp": {AT_MS}}}]}}]}}]}}]}}
        > Fetch v4 {{"topics": [{{"topic": "t", "partitions": [{{"partition": 2, "fetch_offset": 10}}]}}]}}
        < {{"responses": [{{"topic": "t", "partitions": [{{"partition_index": 2, "high_watermark": 20}}]}}]}}
    """, "Fetch")  # fmt: skip
    assert (entry.offsets, entry.ages_ms, entry.append_time) == ([9], [2003], False)
    assert (empty.offsets, empty.ages_ms) == ([], [])
