"""Stories of refused requests, and the findings about them."""

from __future__ import annotations

import json
from typing import Any

from kproxy.trace.lines import FindingEntry, FindingLine
from tests.kproxy.stories import findings

PRODUCE = '> Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0}]}]}\n'


def error_findings(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code.startswith("E")]


def loop_findings(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code == "E002"]


def abandoned_findings(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code == "E006"]


def produce_with_error(code: int, *, partition: int = 0, topic: str = "orders", **fields: Any) -> str:
    partition_response = {"index": partition, "error_code": code, "base_offset": -1 if code else 7, **fields}
    return PRODUCE + f"< {json.dumps({'responses': [{'name': topic, 'partition_responses': [partition_response]}]})}\n"


def commit_with_error(code: int) -> str:
    topic_entry = {"name": "t", "partitions": [{"error_code": code}]}
    request_body = {"group_id": "g", "topics": [{"name": "t", "partitions": [{"committed_offset": 7}]}]}
    return f"> OffsetCommit v7 {json.dumps(request_body)}\n< {json.dumps({'topics': [topic_entry]})}\n"


def heartbeat(code: int) -> str:
    return f'> Heartbeat v4 {{"group_id": "g", "member_id": "m"}}\n< {{"error_code": {code}}}\n'
