"""The columns about transactions in trace lines."""

from __future__ import annotations

from kproxy.trace.lines import HeldEntry, Line, MarkerEntry, RequestLine, ResponseLine
from tests.kproxy.stories import lines_of_story

BATCH = '{"base_offset": 5, "is_transactional": true, "producer_id": 7, "producer_epoch": 2, "base_sequence": 0'
STORY = f"""
> InitProducerId v4 {{"transactional_id": "pay", "transaction_timeout_ms": 60000}}
< {{"producer_id": 7, "producer_epoch": 2}}
> Produce v9 {{"transactional_id": "pay", "acks": -1, "topic_data": [{{"name": "t", "partition_data": [
  {{"records": [{BATCH}, "records": [{{}}]}}]}}]}}]}}
< {{"responses": [{{"name": "t", "partition_responses": [{{"base_offset": 5}}]}}]}}
> Fetch v11 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 5}}]}}]}}
< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 6, "last_stable_offset": 5, "records": [
  {BATCH}, "records": [{{}}]}}]}}]}}]}}
> EndTxn v5 {{"transactional_id": "pay", "producer_id": 7, "producer_epoch": 2, "committed": true}}
< {{"producer_id": 7, "producer_epoch": 3}}
> Fetch v11 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 5}}]}}]}}
< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 7, "last_stable_offset": 7, "records": [
  {BATCH}, "records": [{{}}]}}, {BATCH.replace('": 5', '": 6')}, "is_control": true,
  "records": [{{"key": "\\u0000\\u0000\\u0000\\u0001"}}]}}]}}]}}]}}
> Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{{"records": [{{"records": [{{}}]}}]}}]}}]}}
< {{"responses": [{{"name": "t", "partition_responses": [{{"base_offset": 7}}]}}]}}
"""


def frames(kind: type[Line], api: str) -> list[RequestLine | ResponseLine]:
    return [line for line in lines_of_story(STORY) if isinstance(line, kind) and line.api == api]  # type: ignore[union-attr, misc]


def test_lines_have_the_requesting_or_the_newly_assigned_producer() -> None:
    def first_producer(kind: type[Line], api: str) -> tuple[int | None, int | None]:
        line = frames(kind, api)[0]
        return line.producer_id, line.producer_epoch

    assert first_producer(RequestLine, "InitProducerId") == (None, None)
    assert first_producer(ResponseLine, "InitProducerId") == (7, 2)
    assert first_producer(RequestLine, "Produce") == first_producer(ResponseLine, "Produce") == (7, 2)
    assert first_producer(RequestLine, "EndTxn") == (7, 2)
    assert first_producer(ResponseLine, "EndTxn") == (7, 3)
    assert [line.transaction_timeout_ms for line in frames(RequestLine, "InitProducerId")] == [60000]
    assert [line.committed for line in frames(ResponseLine, "EndTxn")] == [True]
    plain_produce = frames(RequestLine, "Produce")[1]
    assert (plain_produce.producer_id, plain_produce.committed) == (None, None)


def test_fetch_responses_have_markers_and_held_records() -> None:
    first, second = frames(ResponseLine, "Fetch")
    assert isinstance(first, ResponseLine)
    assert isinstance(second, ResponseLine)
    assert first.held == [HeldEntry("t", 0, 5, 6, 7, 2)]
    assert second.held == first.markers == []
    assert second.markers == [MarkerEntry("t", 0, 7, 2, True, 6)]
