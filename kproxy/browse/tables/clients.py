"""The table of clients."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.browse.facts import clients as facts
from kproxy.browse.facts.texts import software
from kproxy.browse.facts.topics import describe_client_traffic
from kproxy.browse.overviews.clients import Client
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
from kproxy.browse.overviews.topic import TopicClient
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    microseconds,
    severities,
)
from kproxy.filters.lexer import quoted

#: Maximum number of topics in the facts of a client.
_MAX_TOPICS = 20
_COLUMNS = (
    OverviewColumn("client", style="name"),
    OverviewColumn("software"),
    OverviewColumn("host", style="dim"),
    OverviewColumn("connections", ColumnKind.COUNT),
    OverviewColumn("requests", ColumnKind.COUNT),
    OverviewColumn("in", ColumnKind.BYTES),
    OverviewColumn("out", ColumnKind.BYTES),
    OverviewColumn("last seen", ColumnKind.TIME),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("findings", ColumnKind.FINDINGS),
    OverviewColumn("Kafka 4"),
    OverviewColumn("why", style="dim"),
)


def clients(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of clients, or of those in the rows of a view."""
    topics = session.overviews.topics.topics_by_client()
    rows = [
        _row(session, client, topics.get((client.host, client.client_id or ""), []))
        for client in facts.rows_in_view(session, view)
    ]
    about = (
        "Clients by client id, software and host. In and out are the bytes of requests and of responses. Kafka 4 no"
        f" longer serves the oldest versions (KIP-896): {_summarize_verdicts([row.values[-2] for row in rows])}."
    )
    return OverviewTable("Clients", about, _COLUMNS, rows, "-requests")


def _summarize_verdicts(verdicts: Sequence[object]) -> str:
    """Return how many clients it refuses, e.g. ``it refuses 2 of 15 clients``."""
    refused, unknown = verdicts.count(Kafka4Verdict.REFUSED), verdicts.count(Kafka4Verdict.UNKNOWN)
    text = f"it refuses {refused} of {len(verdicts)} clients" if refused else "it refuses none of these clients"
    return f"{text}; of {unknown}, too little was seen" if unknown else text


def _row(session: BrowseSession, item: Client, topics: Sequence[tuple[str, TopicClient]]) -> OverviewRow:
    values = [
        item.client_id or "(none)",
        software(item),
        item.host,
        item.connections,
        item.requests,
        item.request_bytes,
        item.response_bytes,
        microseconds(item.last_at),
        item.refusals,
        severities(item.findings),
        item.verdict.value,
        "" if item.verdict is Kafka4Verdict.WORKS else item.reason,
    ]
    filter_text = f"client_id={quoted(item.client_id)}" if item.client_id else None
    marks = [("first", item.first_row), ("last", item.last_row)]
    key = f"{item.client_id} {software(item)} {item.host}"
    largest = sorted(topics, key=lambda entry: -entry[1].produced_bytes - entry[1].fetched_bytes)[:_MAX_TOPICS]
    topic_facts = [(f"topic {topic}", describe_client_traffic(client)) for topic, client in largest]
    return OverviewRow(key, values, filter_text, item.first_row, [*facts.facts(session, item), *topic_facts], marks)
