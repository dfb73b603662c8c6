"""Findings and causes as JSON, in `explain --json`, `dissect --findings --json` and the control socket."""

from __future__ import annotations

import dataclasses
from typing import Any

from kproxy.trace.lines import EditEntry, FindingEntry
from kproxy.verdict.cause import Cause


def finding_as_json(finding: FindingEntry) -> dict[str, Any]:
    """A finding as in `kproxy explain --json`. Keys after `hint` exist only if the layout differs from Kafka's."""
    shown: dict[str, Any] = {
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
        shown["edit"] = _edit_json(finding.edit)
        shown["confidence"] = finding.confidence
        shown |= {"also": [_edit_json(edit) for edit in finding.also]} if finding.also else {}
        shown |= {"rivals": [_edit_json(edit) for edit in finding.rivals]} if finding.rivals else {}
    return shown


def _edit_json(edit: EditEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": edit.kind, "field": edit.field, "detail": edit.detail}
    if edit.confidence is not None:
        shown["confidence"] = edit.confidence
    if edit.then is not None:
        shown["then"] = _edit_json(edit.then)
    return shown


def cause_as_json(cause: Cause) -> dict[str, Any]:
    """A cause: its finding with place and counts. Keys after `connections` exist only if they have a value."""
    more = {
        "lasting": cause.lasting,
        "harmless": cause.is_harmless,
        "messages": list(cause.sentences),
        "consequences": [f"{each.finding.code} {each.finding.name}" for each in cause.consequences],
        "unassigned": cause.unassigned,
    }
    shown = finding_as_json(cause.finding) | {
        "where": dataclasses.asdict(cause.place),
        "count": cause.count,
        "connections": len(cause.connections),
    }
    return shown | {name: value for name, value in more.items() if value}
