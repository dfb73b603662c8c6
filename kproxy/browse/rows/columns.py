"""Cells of a list of exchanges, as pieces of text with their styles."""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.refusals import Nature, judgement
from kproxy.browse.rows.exchange import Exchange
from kproxy.outputs.text import Piece, topics_text
from kproxy.trace.formatting import safe
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, OpenLine, RequestLine, ResponseLine, StallLine

Cell = Sequence[Piece]


def api(exchange: Exchange) -> Cell:
    """Return the API and version; for an event, its kind."""
    frame = exchange.frame
    if frame is None:
        return [(exchange.line.__struct_config__.tag or "", "dim")]  # type: ignore[list-item]
    if frame.api is None:
        return [("?", "name")]
    return [(safe(frame.api), "name"), (f" v{frame.api_version}", "dim")]


def subject(exchange: Exchange) -> Cell:
    """Return the subject: group, topics, or the text of an event."""
    frame = exchange.frame
    if frame is None:
        return [(safe(_event_text(exchange)), "")]
    pieces: list[Piece] = []
    if frame.group_id is not None:
        pieces.append((f"group {safe(frame.group_id) or '(empty)'}  ", ""))
    if frame.transactional_id:
        pieces.append((f"transaction {safe(frame.transactional_id)}  ", ""))
    if frame.topics:
        pieces.append((topics_text(frame.topics), "topic"))
    if frame.software_name:
        pieces.append((safe(f"{frame.software_name} {frame.software_version or ''}"), "dim"))
    if not pieces and frame.not_decoded:
        pieces.append((f"({safe(frame.not_decoded)})", "dim"))
    return pieces


def _event_text(exchange: Exchange) -> str:
    event = exchange.event
    if isinstance(event, OpenLine):
        return f"{event.client} -> {event.server}" + ("  TLS" if event.tls else "")
    if isinstance(event, CloseLine):
        closing = " ".join(part for part in (event.how, f"by {event.by}" if event.by else None) if part)
        return f"{closing}  {event.requests} requests, {event.responses} responses".strip()
    if isinstance(event, GapLine):
        return f"{event.direction}: {event.bytes} bytes not inspected: {event.reason}" if event.bytes else event.reason
    if isinstance(event, StallLine):
        return f"group {event.group_id or '(empty)'}: {event.message}"
    return event.message if isinstance(event, FindingLine) else ""


def problems(exchange: Exchange, level: str) -> Cell:
    """Return the errors of the response, then the most severe finding."""
    pieces: list[Piece] = []
    for side in (exchange.response, exchange.request):
        if isinstance(side, ResponseLine) and side.errors:
            names = dict.fromkeys(safe(error.name) for error in side.errors)
            is_routine = all(judgement(side.api or "", error.code).nature is Nature.ROUTINE for error in side.errors)
            pieces.append((", ".join(names), "dim" if is_routine else "error"))
    worst_finding = next((finding for finding in exchange.findings if finding.severity == level), None)
    repeated = next((repeat for repeat in exchange.repeats if repeat.severity == level), None)
    if worst_finding is not None:
        pieces.append(
            (("  " if pieces else "") + safe(f"{worst_finding.code} {worst_finding.name}"), worst_finding.severity)
        )
    elif repeated is not None:
        pieces.append((("  " if pieces else "") + safe(f"{repeated.code} again"), repeated.severity))
    elif exchange.request is not None and exchange.response is None and level in ("warning", "error"):
        pieces.append(("no response", level))
    if isinstance(exchange.event, CloseLine) and exchange.event.unanswered:
        pieces.append((f"{exchange.event.unanswered} unanswered", "warning"))
    if isinstance(exchange.event, StallLine):
        pieces.append((safe(exchange.event.stall), exchange.event.severity))
    if isinstance(exchange.request, RequestLine) and isinstance(exchange.response, ResponseLine):
        throttled = exchange.response.throttle_time_ms
        if throttled:
            pieces.append((f"  throttled {throttled} ms", "warning"))
    return pieces
