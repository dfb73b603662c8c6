"""The problem of a stalled group, for rules that each report one kind of stall."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind


def stall_problems(event: GroupStalled, kind: StallKind) -> Iterator[Problem]:
    """Yield the problem of an event about a stall of this kind. It is reported once per stall and severity."""
    if event.kind is kind:
        yield Problem(
            f"group {event.group_id!r}: {event.text}",
            hint=event.hint,
            severity=Severity(event.severity),
            once_per=(event.group_id, event.since, event.row, event.severity),
        )
