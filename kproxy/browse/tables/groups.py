"""The tables of consumer groups and of share groups."""

from __future__ import annotations

from dataclasses import replace

from dissectors.groups import Protocol, Stall
from dissectors.groups.model import Boundary, CauseKind, EventKind, GroupStatus, RebalanceCause
from dissectors.refusals import Nature, nature_of
from kproxy.browse.facts import groups as facts
from kproxy.browse.facts.texts import names_and_counts
from kproxy.browse.facts.topics import describe_lag, describe_slowness
from kproxy.browse.overviews.topic import GroupLag
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    microseconds,
)
from kproxy.filters.lexer import quoted
from kproxy.groups import GroupRow, GroupView
from kproxy.trace.formatting import duration
from kproxy.trace.timestamps import timestamp

#: Maximum number of stalls, of generations and of members in the facts of a group.
_MAX_SHOWN = 20
#: Maximum number of generations that are linked to their first frame.
_MAX_MARKS = 5
_COLUMNS = (
    OverviewColumn("group", style="name"),
    OverviewColumn("kind", style="dim"),
    OverviewColumn("state"),
    OverviewColumn("generation", ColumnKind.COUNT),
    OverviewColumn("members", ColumnKind.COUNT),
    OverviewColumn("rebalances", ColumnKind.COUNT),
    OverviewColumn("longest rebalance", ColumnKind.DURATION),
    OverviewColumn("commits", ColumnKind.COUNT),
    OverviewColumn("last seen", ColumnKind.TIME),
    OverviewColumn("why it is stalled", style="error"),
    OverviewColumn("errors", style="error"),
)


#: Columns before "why it is stalled", as Fetch responses of groups show their lag; those of share groups do not.
_LAG_COLUMNS = (
    OverviewColumn("lag", ColumnKind.COUNT, "warning"),
    OverviewColumn("most lag", ColumnKind.COUNT, "dim"),
    OverviewColumn("most lag in", style="dim"),
)
_LAG_POSITION = 8


def groups(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of the groups that assign partitions to members."""
    about = (
        "Consumer groups: members, generations, and why a group makes no progress. Lag is the records that the last"
        " Fetch responses left to read, and those written since; most lag is the highest in one topic."
    )
    return _table("Groups", about, session, view, is_share=False)


def share_groups(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of share groups (KIP-932)."""
    about = "Share groups (KIP-932), whose members read the same partitions and acknowledge each record."
    return _table("Share groups", about, session, view, is_share=True)


def _table(title: str, about: str, session: BrowseSession, view: SessionView, *, is_share: bool) -> OverviewTable:
    overview = session.overviews.groups
    rows = [
        _row(session, row, overview.view(row.group, session.now))
        for row in facts.rows_in_view(session, view)
        if (row.protocol is Protocol.SHARE) == is_share
    ]
    columns: tuple[OverviewColumn, ...] = _COLUMNS
    if not is_share:
        columns = *_COLUMNS[:_LAG_POSITION], *_LAG_COLUMNS, *_COLUMNS[_LAG_POSITION:]
        lags = session.overviews.topics.group_lags()
        rows = [replace(row, values=_values_with_lag(row, lags.get(row.key))) for row in rows]
    omitted_text = f"{overview.evicted:,} inactive groups are not listed" if overview.evicted else ""
    return OverviewTable(title, about, columns, rows, "-why it is stalled", omitted_text)


def _values_with_lag(row: OverviewRow, group_lag: GroupLag | None) -> list[object]:
    lags: list[object] = [None, None, ""]
    if group_lag is not None:
        lags = [group_lag.lag, group_lag.lag_max, group_lag.topic if group_lag.lag_max else ""]
    return [*row.values[:_LAG_POSITION], *lags, *row.values[_LAG_POSITION:]]


def _row(session: BrowseSession, item: GroupRow, view: GroupView | None) -> OverviewRow:
    worst = item.worst
    stall_text = "" if worst is None else worst.text if worst.until is None else f"was: {worst.text}"
    values = [
        item.group or "(empty)",
        item.protocol.value,
        item.state.value,
        item.generation if item.generation >= 0 else None,
        item.members,
        item.rebalances,
        item.longest_rebalance_ns // 1000 or None,
        item.commits,
        microseconds(item.last_at),
        stall_text,
        names_and_counts(item.errors),
    ]
    group_facts: list[tuple[str, str]] = []
    marks: list[tuple[str, int]] = [("last", item.row)]
    if worst is not None:
        marks.insert(0, ("where it stalled", worst.row))
    topics_read = session.overviews.topics.topics_of_group(item.group)
    for topic, reader in topics_read[:_MAX_SHOWN]:
        last_fetch = f"last Fetch response {timestamp(reader.last_at)[11:23]} UTC" if reader.last_at else ""
        group_facts.append((f"reads {topic}", "; ".join(filter(None, (f"lag {describe_lag(reader)}", last_fetch)))))
        # Nobody is slow after the last member has left.
        until = item.last_at if item.state is GroupStatus.EMPTY else session.now
        group_facts.append(("why it is behind", describe_slowness(reader, until)))
        marks.append((f"last Fetch of {topic}", reader.last_row))
    if view is not None:
        boundaries = view.boundaries[-_MAX_SHOWN:]
        group_facts += facts.facts(session, view)
        group_facts += [
            ("holds records", f"{member} {held_text}: {ranges}")
            for member, held_text, ranges in facts.held_records(session, view)
        ]
        group_facts.append(("records acknowledged", facts.acknowledged_records(session, view)))
        group_facts += [(_stall_time(stall), f"{stall.text}. {stall.hint}") for stall in view.stalls[:_MAX_SHOWN]]
        unit = "generation" if item.protocol is Protocol.CLASSIC else "epoch"
        for boundary in reversed(boundaries):
            if boundary.cause is not None:
                text = f"{_describe_time(view, boundary)}: {_describe_cause(boundary.cause)}"
                group_facts.append((f"{unit} {boundary.generation}", text))
        marks += [(f"{unit} {boundary.generation}", boundary.row) for boundary in reversed(boundaries[-_MAX_MARKS:])]
        group_facts += [
            ("member",
             f"{lane.member.label}: {lane.member.state.value}, client {lane.member.client_id} at {lane.member.client}, "
             f"{lane.member.commits:,} commits{', leader' if lane.member.leader else ''}")
            for lane in view.lanes[:_MAX_SHOWN]
        ]  # fmt: skip
    are_routine = item.errors and all(nature_of("Heartbeat", name) is Nature.ROUTINE for name, _ in item.errors)
    return OverviewRow(
        item.group, values, f"group={quoted(item.group)}", item.row, group_facts, marks,
        {"errors": "dim"} if are_routine else {}, _clients_filter(view),
    )  # fmt: skip


def _describe_cause(cause: RebalanceCause) -> str:
    if cause.kind is not CauseKind.REJOIN:
        return cause.text
    who, change = ("leader", "its topics or their partitions") if cause.by_leader else ("member", "its subscription")
    return f"{cause.text} (a {who} does so after a change of {change}, or when it has given up partitions)"


def _describe_time(view: GroupView, boundary: Boundary) -> str:
    """Return when a generation began, and how long its members joined and synced: ``16:37:43.109 UTC, took 82.8 ms``.

    Without a JoinGroup and a SyncGroup, it is the time of its first observation.
    """
    events = [
        event
        for lane in view.lanes
        for event in lane.transitions
        if event.generation == boundary.generation and event.until is not None and not event.error
    ]
    joins = [event.at for event in events if event.kind is EventKind.JOIN]
    syncs = [event.until for event in events if event.kind is EventKind.SYNC and event.until is not None]
    if not joins or not syncs:
        return f"{timestamp(boundary.at)[11:23]} UTC"
    return f"{timestamp(min(joins))[11:23]} UTC, took {duration((max(syncs) - min(joins)) // 1000)}"


def _clients_filter(view: GroupView | None) -> str | None:
    """Return the filter for what the members read: Fetch requests have no group."""
    client_ids = (
        () if view is None else dict.fromkeys(lane.member.client_id for lane in view.lanes if lane.member.client_id)
    )
    names = " or ".join(f"client_id={quoted(client_id)}" for client_id in list(client_ids)[:_MAX_SHOWN])
    return f"({names}) and (api=Fetch or api=ShareFetch)" if names else None


def _stall_time(stall: Stall) -> str:
    since = f"{timestamp(stall.since)[11:23]} UTC"
    if stall.until is None:
        return f"stalled since {since}"
    duration_us = (stall.until - stall.since) // 1000
    return f"stalled at {since} for {duration(duration_us)}" if duration_us else f"at {since}"
