"""Timelines of groups (memberships, rebalances, stalls) and of transactional producers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dissectors.groups import Stall
from dissectors.groups.model import EventKind
from dissectors.refusals import Nature, nature_of
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.filters.lexer import quoted
from kproxy.groups import GroupView
from kproxy.groups.rows import LaneView
from kproxy.trace.formatting import safe

#: Maximum number of groups or transactional ids, of lanes per group, and of spans per lane; the latest are kept.
_MAX_TIMELINES: Final = 100
_MAX_LANES: Final = 40
_MAX_SPANS: Final = 200
_REBALANCES: Final = frozenset({EventKind.JOIN, EventKind.SYNC, EventKind.LEAVE})


class TimelineSpan(NamedTuple):
    """A period, or a moment if it ends when it begins. Times are in ns; `end` is None while the period lasts.

    `kind` determines how a page draws it, `text` describes it, `row` is a row of the index.
    """

    begin: int
    end: int | None
    kind: str
    text: str
    row: int


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A line of a timeline; its spans are in drawing order."""

    label: str
    spans: Sequence[TimelineSpan]


@dataclass(frozen=True, slots=True)
class TimelinePicture:
    """The lanes of a group or a transactional id; `filter` selects its frames."""

    name: str
    filter: str | None
    lanes: list[TimelineLane] = field(default_factory=list)


def groups(session: BrowseSession, view: SessionView) -> list[TimelinePicture]:
    """Return the groups in the rows of a view, worst first: generations and stalls, then each member."""
    matching, overview = view.matching, session.overviews.groups
    rows = [row for row in overview.rows(session.now) if matching is None or row.group in matching.groups]
    rows.sort(key=lambda row: (-row.stalls, -row.ended_stalls, -row.rebalances))
    pictures = []
    for row in rows[:_MAX_TIMELINES]:
        if (group := overview.view(row.group, session.now)) is not None:
            generations = TimelineLane("generations", [*_generation_spans(group)])
            lanes = [generations, *map(_member_lane, group.lanes[:_MAX_LANES])]
            pictures.append(TimelinePicture(row.group or "(empty)", f"group={quoted(row.group)}", lanes))
    return pictures


def transactions(session: BrowseSession, view: SessionView) -> list[TimelinePicture]:
    """Return the transactional ids in the rows of a view: each transaction, and how it ended."""
    matching, overview = view.matching, session.overviews.transactions
    pictures = []
    for row in overview.rows(session.now):
        if matching is not None and row.transactional_id not in matching.transactions:
            continue
        spans = [
            TimelineSpan(span.begun_at, span.ended_at, span.outcome.value, span.outcome.value, span.row)
            for span in overview.spans(row.key)[-_MAX_SPANS:]
        ]
        filter_text = None if row.transactional_id is None else f"transaction={quoted(row.transactional_id)}"
        pictures.append(TimelinePicture(row.key or "(empty)", filter_text, [TimelineLane(row.client_id or "", spans)]))
    return pictures[:_MAX_TIMELINES]


TIMELINES: Final[Mapping[str, Callable[[BrowseSession, SessionView], list[TimelinePicture]]]] = {
    "groups": groups,
    "transactions": transactions,
}


def timeline_json(
    timelines: Sequence[TimelinePicture], session: BrowseSession, numbers_by_row: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """Return timelines as JSON values, with times in us. `numbers_by_row`, if given, replaces the row numbers."""
    spans = [span for timeline in timelines for lane in timeline.lanes for span in lane.spans]
    end = max((span.end or session.now for span in spans), default=0)

    def span_json(span: TimelineSpan) -> list[Any]:
        row = span.row if numbers_by_row is None else numbers_by_row.get(span.row)
        end_us = None if span.end is None else span.end // 1000
        return [span.begin // 1000, end_us, span.kind, safe(span.text), row]

    return {
        "from": min((span.begin for span in spans), default=0) // 1000,
        "to": end // 1000,
        "timelines": [
            {
                "name": safe(timeline.name),
                "filter": timeline.filter,
                "lanes": [
                    {"label": safe(lane.label), "spans": [*map(span_json, lane.spans)]} for lane in timeline.lanes
                ],
            }
            for timeline in timelines
        ],
    }


def _generation_spans(group: GroupView) -> Iterator[TimelineSpan]:
    for boundary in group.boundaries[-_MAX_SPANS:]:
        cause = f": {boundary.cause.text}" if boundary.cause is not None else ""
        yield TimelineSpan(
            boundary.at, boundary.at, "generation", f"generation {boundary.generation}{cause}", boundary.row
        )
    for stall in group.stalls[:_MAX_SPANS]:
        yield _stall_span(stall)


def _stall_span(stall: Stall) -> TimelineSpan:
    return TimelineSpan(stall.since, stall.until, "stall", stall.text, stall.row)


def _member_lane(lane: LaneView) -> TimelineLane:
    member = lane.member
    spans = [TimelineSpan(begin, end, "member", "member", member.row) for begin, end in lane.memberships[-_MAX_SPANS:]]
    events = [*lane.transitions[-_MAX_SPANS:], *lane.recurring[-_MAX_SPANS:]]
    for event in sorted(events, key=lambda event: event.at):
        name = event.api or event.kind.value
        if event.error:
            kind = "routine" if nature_of(name, event.error) is Nature.ROUTINE else "refused"
            spans.append(TimelineSpan(event.at, event.until or event.at, kind, f"{name}: {event.error}", event.row))
        elif event.kind in _REBALANCES:
            spans.append(TimelineSpan(event.at, event.until, "rebalance", name, event.row))
        elif event.kind is EventKind.COMMIT:
            spans.append(TimelineSpan(event.at, event.at, "commit", name, event.row))
    return TimelineLane(member.label, spans)
