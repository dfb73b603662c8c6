"""Lines with numbers and times that cannot be, from where they are read to where they are words on a screen."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from kproxy.browse.rows import columns
from kproxy.browse.session import BrowseSession
from kproxy.groups.timeline import Window, lay_out
from kproxy.outputs.text import TextOutput
from kproxy.trace.formatting import duration, size
from kproxy.transactions.timeline import drawing
from tests.kproxy.browse.sessions import Given, read

_TS = "2026-11-21T01:00:00.000000Z"
_LINE = {"v": 1, "connection_id": "n-1"}
_APIS = [("Fetch", 1), ("Produce", 0), ("JoinGroup", 11), ("ConsumerGroupHeartbeat", 68), ("InitProducerId", 22),
         ("AddPartitionsToTxn", 24), ("EndTxn", 26)]  # fmt: skip


def lines(number: int, ts: str = _TS) -> list[dict[str, Any]]:
    """Lines of which every number is this one."""
    ends = {"client": "10.0.0.1:1", "server": "10.0.0.2:2"}
    topic = dict.fromkeys(("bytes", "records", "batches", "lag"), number)
    topics = [
        {"topic": name, "partitions": numbers, "partition_bytes": numbers} | topic
        for name, numbers in (("one", [number]), ("two", [number, 1]))
    ]
    finding = {"code": "S005", "name": "x", "severity": "error", "message": "m", "span": [number, number],
               "confidence": 1.0}  # fmt: skip
    marker = {"topic": "one", "committed": False} | dict.fromkeys(
        ("partition", "producer_id", "producer_epoch", "offset"), number
    )
    held = {"topic": "one"} | dict.fromkeys(
        ("partition", "last_stable_offset", "high_watermark", "producer_id", "producer_epoch"), number
    )
    made: list[dict[str, Any]] = []
    for api, key in _APIS:
        frame = _LINE | ends | {"ts": ts, "api": api, "api_key": key, "api_version": number, "correlation_id": number,
                                "size": number, "offset": number, "topics": topics, "group_id": "g", "member_id": "m",
                                "generation_id": number, "findings": [finding], "transactional_id": "x",
                                "producer_id": number, "producer_epoch": number, "committed": True,
                                "transaction_timeout_ms": number, "markers": [marker]}  # fmt: skip
        answer = {"request_ts": ts, "latency_us": number, "request_size": number, "throttle_time_ms": number,
                  "held": [held],
                  "errors": [{"path": "responses[0]", "code": number, "name": "E" * 9}]}  # fmt: skip
        made += [{"kind": "request"} | frame, {"kind": "response"} | frame | answer]
        made.append({"kind": "response"} | frame | answer | {"errors": [], "correlation_id": 0})
    made.append(
        _LINE | {"kind": "gap", "ts": ts, "direction": "both", "bytes": number, "frames": number, "reason": "r"}
    )
    repeated = [{"code": "S005", "name": "x", "count": number}]
    counted = dict.fromkeys(("requests", "responses", "unanswered", "request_bytes", "response_bytes"), number)
    made.append(_LINE | ends | {"kind": "close", "ts": ts, "repeated": repeated} | counted)
    return made


def look_at_everything(session: BrowseSession) -> None:
    """Have all overviews tell all they know, and write it down."""
    overviews, now = session.overviews, session.now
    for latency in (overviews.connections.rows(), overviews.apis.rows(now)):
        for each in latency:
            duration(each.p99_us)
            duration(each.max_us)
            size(each.response_bytes)
    overviews.clients.rows()
    overviews.findings.sorted_causes()
    for group in overviews.groups.rows(now):
        view = overviews.groups.view(group.group, now)
        assert view is not None
        lay_out(view, Window.around(group.first_at, now), 80)
    transactions = overviews.transactions.rows(now)
    for each_one in transactions:
        each_one.problem(now)
        made = drawing(transactions, each_one, overviews.transactions.spans, now)
        made.lay_out(Window.around(each_one.first_at, now), 80)
    for topic in overviews.topics.rows(now):
        size(topic.fetched.bytes)
        assert topic.topic is not None
        overviews.topics.partitions(topic.topic)
        overviews.topics.clients(topic.topic)
        overviews.topics.readers(topic.topic)
    text = TextOutput(io.StringIO(), verbose=True)
    for row in range(session.index.end):
        exchange = session.exchange(row)
        assert exchange is not None
        text.write(exchange.line)
        columns.api(exchange)
        columns.what(exchange)
        columns.wrong(exchange, "error")


@pytest.mark.parametrize("number", [10**400, -(10**400), 2**63, -(2**63) - 1, -1], ids=lambda number: str(number)[:6])
def test_numbers_that_cannot_be(number: int) -> None:
    source = Given()
    source.spool.append(b"".join(json.dumps(line).encode() + b"\n" for line in lines(number)))
    session = BrowseSession(source)
    read(session)
    assert (session.bad, len(session.index.at)) == (0, 16)
    look_at_everything(session)


@pytest.mark.parametrize("year", ["0001", "1969", "2262", "9999"])
def test_times_that_cannot_be(year: str) -> None:
    source = Given()
    made = lines(5) + lines(6, ts=f"{year}-12-31T23:59:59.999999Z") + lines(7)
    source.spool.append(b"".join(json.dumps(line).encode() + b"\n" for line in made))
    session = BrowseSession(source)
    read(session)
    assert session.bad == 0
    look_at_everything(session)
