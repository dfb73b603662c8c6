"""Lines with impossible numbers and times can be read, counted and displayed."""

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
from tests.kproxy.browse.sessions import LinesSource, read

_TS = "2026-11-21T01:00:00.000000Z"
_LINE = {"v": 1, "connection_id": "n-1"}
_APIS = [("Fetch", 1), ("Produce", 0), ("JoinGroup", 11), ("ConsumerGroupHeartbeat", 68), ("InitProducerId", 22),
         ("AddPartitionsToTxn", 24), ("EndTxn", 26)]  # fmt: skip


def lines_with_number(number: int, ts: str = _TS) -> list[dict[str, Any]]:
    """Return lines in which every numeric field is `number`."""
    endpoints = {"client": "10.0.0.1:1", "server": "10.0.0.2:2"}
    topic = dict.fromkeys(("bytes", "records", "batches", "lag"), number)
    topics = [
        {"topic": name, "partitions": partitions, "partition_bytes": partitions} | topic
        for name, partitions in (("one", [number]), ("two", [number, 1]))
    ]
    finding = {"code": "S005", "name": "x", "severity": "error", "message": "m", "span": [number, number],
               "confidence": 1.0}  # fmt: skip
    transaction_marker = {"topic": "one", "committed": False} | dict.fromkeys(
        ("partition", "producer_id", "producer_epoch", "offset"), number
    )
    open_transaction = {"topic": "one"} | dict.fromkeys(
        ("partition", "last_stable_offset", "high_watermark", "producer_id", "producer_epoch"), number
    )
    lines: list[dict[str, Any]] = []
    for api, key in _APIS:
        frame = _LINE | endpoints | {"ts": ts, "api": api, "api_key": key, "api_version": number,
                                     "correlation_id": number,
                                     "size": number, "offset": number, "topics": topics, "group_id": "g",
                                      "member_id": "m",
                                     "generation_id": number, "findings": [finding], "transactional_id": "x",
                                     "producer_id": number, "producer_epoch": number, "committed": True,
                                     "transaction_timeout_ms": number, "markers": [transaction_marker]}  # fmt: skip
        response_columns = {"request_ts": ts, "latency_us": number, "request_size": number, "throttle_time_ms": number,
                  "held": [open_transaction],
                  "errors": [{"path": "responses[0]", "code": number, "name": "E" * 9}]}  # fmt: skip
        lines += [{"kind": "request"} | frame, {"kind": "response"} | frame | response_columns]
        lines.append({"kind": "response"} | frame | response_columns | {"errors": [], "correlation_id": 0})
    lines.append(
        _LINE | {"kind": "gap", "ts": ts, "direction": "both", "bytes": number, "frames": number, "reason": "r"}
    )
    repeats = [{"code": "S005", "name": "x", "count": number}]
    counters = dict.fromkeys(("requests", "responses", "unanswered", "request_bytes", "response_bytes"), number)
    lines.append(_LINE | endpoints | {"kind": "close", "ts": ts, "repeated": repeats} | counters)
    return lines


def view_everything(session: BrowseSession) -> None:
    """Compute everything that the overviews show, and write all lines as text."""
    overviews, now = session.overviews, session.now
    for rows in (overviews.connections.rows(), overviews.apis.rows(now)):
        for row_with_latency in rows:
            duration(row_with_latency.p99_us)
            duration(row_with_latency.max_us)
            size(row_with_latency.response_bytes)
    overviews.clients.rows()
    overviews.findings.sorted_causes()
    for group in overviews.groups.rows(now):
        view = overviews.groups.view(group.group, now)
        assert view is not None
        lay_out(view, Window.around(group.first_at, now), 80)
    transactions = overviews.transactions.rows(now)
    for transaction in transactions:
        transaction.problem(now)
        picture = drawing(transactions, transaction, overviews.transactions.spans, now)
        picture.lay_out(Window.around(transaction.first_at, now), 80)
    for topic in overviews.topics.rows(now):
        size(topic.fetched.bytes)
        assert topic.topic is not None
        overviews.topics.partitions(topic.topic)
        overviews.topics.clients(topic.topic)
        overviews.topics.readers(topic.topic)
    text_output = TextOutput(io.StringIO(), verbose=True)
    for row in range(session.index.end):
        exchange = session.exchange(row)
        assert exchange is not None
        text_output.write(exchange.line)
        columns.api(exchange)
        columns.subject(exchange)
        columns.problems(exchange, "error")


@pytest.mark.parametrize("number", [10**400, -(10**400), 2**63, -(2**63) - 1, -1], ids=lambda number: str(number)[:6])
def test_lines_with_impossible_numbers_are_shown(number: int) -> None:
    source = LinesSource()
    source.spool.append(b"".join(json.dumps(line).encode() + b"\n" for line in lines_with_number(number)))
    session = BrowseSession(source)
    read(session)
    assert (session.bad, len(session.index.at)) == (0, 16)
    view_everything(session)


@pytest.mark.parametrize("year", ["0001", "1969", "2262", "9999"])
def test_lines_with_impossible_times_are_shown(year: str) -> None:
    source = LinesSource()
    all_lines = lines_with_number(5) + lines_with_number(6, ts=f"{year}-12-31T23:59:59.999999Z") + lines_with_number(7)
    source.spool.append(b"".join(json.dumps(line).encode() + b"\n" for line in all_lines))
    session = BrowseSession(source)
    read(session)
    assert session.bad == 0
    view_everything(session)
