"""Tells which findings have the same cause, and which causes are the most urgent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dissectors.findings import Severity, location_of_cause, without_indexes
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import EditEntry, FindingEntry, FindingLine, ResponseLine
from kproxy.verdict.cause import Cause

#: A sort key, which is lowest for the most urgent cause.
Urgency: TypeAlias = tuple[bool, int, bool, bool, int, str]


def best_first(findings: Iterable[FindingEntry]) -> list[FindingEntry]:
    """Return findings sorted by severity, then by confidence, so that those with a diagnosis come first."""
    return sorted(findings, key=lambda finding: (-RANK.get(finding.severity, 0), -(finding.confidence or 0.0)))


def cause_key(finding: FindingEntry, api: str | None, api_version: int | None, direction: str | None) -> bytes:
    """Return a key that is equal for all findings with the same cause.

    It consists of code, severity, API, version, direction, and field or edit. Findings about groups
    that make no progress (family G) become more severe the longer a stall lasts, so their severity is left out. So are
    messages, whose numbers and names differ for the same bug. A trace has a finding for each server (not for habits of
    clients), client and subject (such as a topic) with the same cause (`dissectors.rules.check`); here they are one.
    """
    location: object = location_of_cause(finding.path, finding.edit)
    if isinstance(location, EditEntry):
        location = location.kind, location.field, location.detail, location.then
    severity = None if finding.code[:1] == "G" else finding.severity
    key = encode_json((finding.code, severity, api, api_version, direction, location))
    return without_indexes(key.decode()).encode()


def urgency(cause: Cause) -> Urgency:
    """Return a sort key, which is lowest for the most urgent cause.

    Errors that stop a client now come first; then severity decides. Next, harmless causes come last, because brokers
    tolerate many errors in requests. Finally, causes with a diagnosis come before those without, which are more often
    consequences.
    """
    finding = cause.finding
    stops_client = cause.lasts and finding.severity == Severity.ERROR
    rank = RANK.get(finding.severity, 0)
    return not stops_client, -rank, cause.is_harmless, finding.edit is None, -cause.count, finding.code


def was_served(line: ResponseLine) -> bool:
    """Whether a request succeeded. Error codes in a response with a layout error are unreliable, and ignored."""
    return not line.errors or any(finding.edit is not None for finding in line.findings)


def finding_entry(line: FindingLine) -> FindingEntry:
    """Return the finding entry for a finding line."""
    return FindingEntry(
        line.code, line.name, line.severity, line.message, blame=line.blame, hint=line.hint, expected=line.expected,
        got=line.got,
    )  # fmt: skip
