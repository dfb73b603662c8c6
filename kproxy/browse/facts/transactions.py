"""Transactional producers."""

from __future__ import annotations

from typing import Final

from kproxy.browse.facts.texts import Facts, names_and_counts
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.transactions import TransactionRow

#: Maximum number of partitions and groups listed.
_MAX_ITEMS: Final = 50


def rows_in_view(session: BrowseSession, view: SessionView) -> list[TransactionRow]:
    """Return the transactional producers that match the view's filter."""
    rows, matching = session.overviews.transactions.rows(session.now), view.matching
    return [row for row in rows if matching is None or row.transactional_id in matching.transactions]


def facts(session: BrowseSession, item: TransactionRow) -> Facts:
    """Return labelled facts about a transactional producer."""
    clock = session.clock
    held_texts = (
        f"{record.topic}[{record.partition}] at {record.last_stable_offset:,} since {clock.time(record.since)} "
        f"({record.records:,} records after it)"
        for record in item.held[:_MAX_ITEMS]
    )
    return [
        ("client", f"{item.client_id} at {item.client}" if item.client else "not observed"),
        ("protocol", f"version {item.version}" if item.version else ""),
        ("began", clock.labelled(item.begun_at) if item.begun_at is not None else ""),
        ("last request", clock.labelled(item.last_at)),
        ("last connection ended", clock.labelled(item.gone_at) if item.gone_at is not None else ""),
        ("partitions", ", ".join(f"{topic}[{partition}]" for topic, partition in item.partitions[:_MAX_ITEMS])),
        ("offsets of groups", ", ".join(item.groups[:_MAX_ITEMS])),
        ("holds", ", ".join(held_texts)),
        ("markers seen", f"{item.markers:,}" if item.markers else ""),
        ("errors", names_and_counts(item.errors)),
    ]
