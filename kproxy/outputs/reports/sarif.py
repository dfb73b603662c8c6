"""The report as SARIF 2.1.0, for code scanning and editors.

A finding has an offset in a connection's stream, but SARIF has regions of files. So the artifact is the capture or the
trace, and `byteOffset` counts in the stream that `properties` names.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kproxy.outputs import rulebook
from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.findings import sentence
from kproxy.trace.encoding import encode_json
from kproxy.trace.lines import FindingEntry
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes
from kproxy.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def report(causes: Causes, analysed: AnalysedInputs, notes: Sequence[str] = ()) -> bytes:
    """Return the SARIF log with one run. `notes` are sentences about the inputs, e.g. that one is truncated."""
    sorted_causes = causes.sorted_causes()
    codes = {cause.finding.code: cause.finding for cause in sorted_causes}
    sorted_codes = sorted(codes)
    driver = {
        "name": "kproxy",
        "version": __version__,
        "rules": [_rule(codes[code]) for code in sorted_codes],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notifications(analysed, notes)}],
        "artifacts": [_artifact(name, analysed) for name in causes.files],
        "results": [_result(cause, sorted_codes.index(cause.finding.code)) for cause in sorted_causes],
        "properties": {"analysed": {"files": len(analysed.files)} | analysed.total.as_json()},
    }
    return encode_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + b"\n"


def _notifications(analysed: AnalysedInputs, notes: Sequence[str]) -> list[dict[str, Any]]:
    sentences = [(note, "note") for note in notes] + [
        (analysed.sentence, "warning" if analysed.has_no_frames else "note")
    ]
    return [{"level": level, "message": {"text": sentence}} for sentence, level in sentences]


def _artifact(name: str, analysed: AnalysedInputs) -> dict[str, Any]:
    artifact: dict[str, Any] = {"location": {"uri": _uri(name)}, "roles": ["analysisTarget"]}
    counts = analysed.files.get(name)
    return artifact | ({"properties": counts.as_json()} if counts else {})


def _rule(finding: FindingEntry) -> dict[str, Any]:
    entry = rulebook.find(finding.code)
    if entry is None:  # the trace is from a later version of kproxy
        return {"id": finding.code, "name": finding.name}
    rule: dict[str, Any] = {
        "id": entry.code,
        "name": entry.name,
        "shortDescription": {"text": entry.summary},
        "help": {"text": entry.page, "markdown": entry.page},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
        "properties": {"tags": [rulebook.FAMILIES[entry.code[0]]]},
    }
    return rule | ({"helpUri": entry.source} if entry.source else {})


def _result(cause: Cause, rule_index: int) -> dict[str, Any]:
    finding, position = cause.finding, cause.place
    frame = " ".join(filter(None, (position.api and f"{position.api} v{position.api_version}", position.direction)))
    full_name = ".".join(filter(None, (frame, finding.path)))
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(position.file)}}}
    if position.offset is not None:
        start, end = finding.span or (0, 0)
        location["physicalLocation"]["region"] = {"byteOffset": position.offset + start, "byteLength": end - start}
    if full_name:
        location["logicalLocations"] = [{"fullyQualifiedName": full_name, "kind": "member"}]
    sentences = [finding.message, finding.edit and sentence(finding.edit), finding.hint]
    properties = {
        "blame": finding.blame, "connection": position.connection_id, "client": position.client,
        "server": position.server, "stream": position.direction, "correlationId": position.correlation_id,
        "ts": position.ts, "span": finding.span,
        "confidence": finding.confidence, "connections": len(cause.connections), "lasting": cause.lasting or None,
    }  # fmt: skip
    return {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS.get(finding.severity, "warning"),
        "message": {"text": ". ".join(text for text in sentences if text) + "."},
        "locations": [location],
        "occurrenceCount": cause.count,
        "partialFingerprints": {"kproxyCause/v1": hashlib.sha256(cause.key).hexdigest()[:32]},
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _uri(name: str) -> str:
    path = Path(name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
