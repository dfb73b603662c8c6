"""Rows and exchanges of a session as JSON values, for a page and for the server of the web application."""

from __future__ import annotations

from typing import Any

from kproxy.browse.fields.detail import build_frame_detail
from kproxy.browse.rows.columns import api, problems, subject
from kproxy.browse.rows.exchange import Exchange, lines_of
from kproxy.browse.rows.index import SEVERITIES, RowState, time_of
from kproxy.browse.session import BrowseSession
from kproxy.html.matching_records import RecordTest
from kproxy.html.record_values import page_records
from kproxy.html.sides import finding_json, side_json, side_records
from kproxy.trace.encoding import as_mapping
from kproxy.trace.formatting import safe
from kproxy.trace.lines import FindingLine
from kproxy.verdict.ranking import best_first, finding_entry


def row_json(session: BrowseSession, exchange: Exchange, number: int) -> list[Any]:
    """Return the cells of a row.

    Returns:
        ``[number, time in us since the epoch, connection, client, API, version, subject, bytes of both frames, latency
        in us, state, [[text, style]...], severity, kind of event, server, 1 if the response has an error]``. Bytes are
        null for an event, the latency if it is unknown; that of a waiting request is its wait so far. The state is a
        `RowState`; the kind is empty for frames.
    """
    index = session.index
    entry = exchange.row - index.first
    line, frame = exchange.line, exchange.frame
    level = SEVERITIES[index.severity[entry]]
    name, *version = (text for text, _ in api(exchange))
    return [
        number,
        time_of((exchange.request or line).ts) // 1000,
        safe(line.connection_id),
        safe(frame.client_id or "") if frame is not None else "",
        "" if frame is None else name,
        "".join(version).strip(),
        "".join(text for text, _ in subject(exchange)).strip(),
        None if frame is None else index.size[entry],
        index.latency_or_wait(exchange.row, session.now),
        int(exchange.state),
        [[text.strip(), style] for text, style in problems(exchange, level)],
        level,
        name if frame is None else "",
        safe(getattr(line, "server", "")),  # some events only name their connection
        int(index.errors[entry]),
    ]


def lines_json(exchange: Exchange) -> tuple[dict[str, Any], bool]:
    """Return the lines of an exchange with their findings as text, and whether some of their records are left out.

    The findings of a line are sorted, most severe first. Bodies are reduced to their decoded records, up to a limit.
    """
    lines, findings, is_cut = [], [], False
    for line in lines_of(exchange):
        lines.append({name: value for name, value in as_mapping(line).items() if name not in ("body", "frame")})
        included_records, has_more = page_records(line)
        if included_records:
            lines[-1]["body"] = included_records
        is_cut = is_cut or has_more
        entries = [finding_entry(line)] if isinstance(line, FindingLine) else best_first(getattr(line, "findings", ()))
        findings.append([finding_json(finding) for finding in entries])
    return {"lines": lines, "findings": findings}, is_cut


def sides_json(exchange: Exchange) -> list[dict[str, Any] | None] | None:
    """Return the fields and bytes of request and response, null if missing; None for an event."""
    if exchange.frame is None:
        return None
    request, response = exchange.request, exchange.response
    return [
        None if request is None else side_json(build_frame_detail(request), response),
        None if response is None else side_json(build_frame_detail(response, request)),
    ]


def records_json(exchange: Exchange, is_shown: RecordTest | None = None) -> list[dict[str, Any]]:
    """Return the records of an exchange as in its sides, without numbers of fields; with a test, those it leaves."""
    if exchange.frame is None:
        return []
    request, response = exchange.request, exchange.response
    details = [] if request is None else [build_frame_detail(request)]
    if response is not None:
        details.append(build_frame_detail(response, request))
    return [record for detail in details for record in side_records(detail, is_shown=is_shown, response=response)]


def is_unanswered(exchange: Exchange) -> bool:
    """Whether a request got no response."""
    return exchange.state in (RowState.UNANSWERED, RowState.WAITING)
