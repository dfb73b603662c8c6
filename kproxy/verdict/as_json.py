"""Findings and causes as JSON, for `explain --json`, `dissect --findings --json` and the control socket."""

from __future__ import annotations

import dataclasses
from typing import Any

from kproxy.trace.lines import EditEntry, FindingEntry
from kproxy.verdict.cause import Cause


def finding_as_json(finding: FindingEntry) -> dict[str, Any]:
    """Return a finding as `kproxy explain --json` shows it, with keys after `hint` only if its layout differs."""
    result: dict[str, Any] = {
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
        result["edit"] = _edit_as_json(finding.edit)
        result["confidence"] = finding.confidence
        result |= {"also": [_edit_as_json(edit) for edit in finding.also]} if finding.also else {}
        result |= {"rivals": [_edit_as_json(edit) for edit in finding.rivals]} if finding.rivals else {}
    return result


def _edit_as_json(edit: EditEntry) -> dict[str, Any]:
    result: dict[str, Any] = {"kind": edit.kind, "field": edit.field, "detail": edit.detail}
    if edit.confidence is not None:
        result["confidence"] = edit.confidence
    if edit.then is not None:
        result["then"] = _edit_as_json(edit.then)
    return result


def cause_as_json(cause: Cause) -> dict[str, Any]:
    """Return a cause as its finding with place and counts. Keys after `connections` exist only if they have a value."""
    optional_values = {
        "lasting": cause.lasting,
        "harmless": cause.is_harmless,
        "messages": list(cause.sentences),
        "consequences": [
            f"{consequence.finding.code} {consequence.finding.name}" for consequence in cause.consequences
        ],
        "unassigned": cause.unassigned,
    }
    result = finding_as_json(cause.finding) | {
        "where": dataclasses.asdict(cause.place),
        "count": cause.count,
        "connections": len(cause.connections),
    }
    return result | {name: value for name, value in optional_values.items() if value}
