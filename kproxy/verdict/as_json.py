"""Findings and causes as JSON, in `explain --json`, `dissect --findings --json` and the control socket."""

from __future__ import annotations

import dataclasses
from typing import Any

from kproxy.trace.lines import EditEntry, FindingEntry
from kproxy.verdict.cause import Cause


def finding_as_json(finding: FindingEntry) -> dict[str, Any]:
    """A finding as in `kproxy explain --json`. Keys after `hint` exist only if the layout differs from Kafka's."""
    made: dict[str, Any] = {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "blame": finding.blame,
        "message": finding.message,
        "path": finding.path,
        "span": None if finding.span is None else list(finding.span),
        "hint": finding.hint,
    }
    if finding.edit is not None:
        made["edit"] = _edit_json(finding.edit)
        made["confidence"] = finding.confidence
        made |= {"also": [_edit_json(edit) for edit in finding.also]} if finding.also else {}
        made |= {"rivals": [_edit_json(edit) for edit in finding.rivals]} if finding.rivals else {}
    return made


def _edit_json(edit: EditEntry) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": edit.kind, "field": edit.field, "detail": edit.detail}
    if edit.confidence is not None:
        made["confidence"] = edit.confidence
    if edit.then is not None:
        made["then"] = _edit_json(edit.then)
    return made


def cause_as_json(cause: Cause) -> dict[str, Any]:
    """A cause: its finding with place and counts. Keys after `connections` exist only if they have a value."""
    more = {
        "lasting": cause.lasting,
        "harmless": cause.is_harmless,
        "messages": list(cause.sentences),
        "consequences": [f"{each.finding.code} {each.finding.name}" for each in cause.consequences],
        "unassigned": cause.unassigned,
    }
    made = finding_as_json(cause.finding) | {
        "where": dataclasses.asdict(cause.place),
        "count": cause.count,
        "connections": len(cause.connections),
    }
    return made | {name: value for name, value in more.items() if value}
