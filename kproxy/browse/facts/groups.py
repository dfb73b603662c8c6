"""Groups, and the records that members of share groups hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.browse.facts.texts import Facts, names_and_counts
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.groups import GroupRow, GroupView
from kproxy.shares import HeldRecords
from kproxy.trace.formatting import duration

#: Maximum number of record ranges listed per member.
_MAX_RANGES: Final = 6
_TYPE_NAMES: Final = {
    "accept": "accepted",
    "release": "released",
    "reject": "rejected",
    "renew": "renewed",
    "gap": "skipped as gaps",
}


def rows_in_view(session: BrowseSession, view: SessionView) -> list[GroupRow]:
    """Return the groups that match the view's filter."""
    rows, matching = session.overviews.groups.rows(session.now), view.matching
    return [row for row in rows if matching is None or row.group in matching.groups]


def facts(session: BrowseSession, group: GroupView) -> Facts:
    """Return labelled facts about a group; its stalls, generations and members are in `group`."""
    row, clock = group.row, session.clock
    labels = {lane.member.key: lane.member.label for lane in group.lanes}
    evicted = ("members", group.lanes_evicted), ("events", group.events_evicted), ("stalls", group.stalls_evicted)
    return [
        ("leader", labels.get(row.leader, row.leader)),
        ("coordinator", row.coordinator),
        ("last commit", clock.labelled(row.commit_at) if row.commit_at else ""),
        ("errors", names_and_counts(row.errors)),
        ("no longer kept", ", ".join(f"{number:,} {items}" for items, number in evicted if number)),
    ]


def held_records(session: BrowseSession, group: GroupView) -> Iterator[tuple[str, str, str]]:
    """Yield, for each member that holds records, its label, ``holds 12 records``, and the records with their locks."""
    now = session.now
    labels = {lane.member.member_id: lane.member.label for lane in group.lanes}
    for member, ranges in sorted(session.overviews.shares.held_records(group.row.group, now).items()):
        count = sum(records.last - records.first + 1 for records in ranges)
        parts = [_describe_range(records, now) for records in ranges[:_MAX_RANGES]]
        more_text = f" and {len(ranges) - len(parts)} more ranges" if len(ranges) > len(parts) else ""
        yield labels.get(member, member), f"holds {count:,} records", f"{', '.join(parts)}{more_text}"


def acknowledged_records(session: BrowseSession, group: GroupView) -> str:
    """Return e.g. ``12 accepted, 1 released``; empty if no record was acknowledged."""
    counts = session.overviews.shares.acknowledged_counts(group.row.group)
    return ", ".join(f"{number:,} {_TYPE_NAMES[kind]}" for kind, number in sorted(counts.items()))


def _describe_range(records: HeldRecords, now: int) -> str:
    """Describe a range of records, e.g. ``jobs[0] 5-9 (delivery 2, lock 12.3 s)``."""
    span = f"{records.first}" if records.first == records.last else f"{records.first}-{records.last}"
    lock = "" if records.until is None else f", lock {duration((records.until - now) // 1000)}"
    ended = ", its connection has ended" if records.gone else ""
    return f"{records.topic}[{records.partition}] {span} (delivery {records.deliveries}{lock}{ended})"
