"""What an output needs from the inspection, which follows from the columns of a trace line that it reads."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from kproxy.trace.lines import FindingLine, RequestLine, ResponseLine, StallLine


def _columns(*kinds: type) -> frozenset[str]:
    return frozenset(name for kind in kinds for name in kind.__struct_fields__)  # type: ignore[attr-defined]


_FRAME = _columns(RequestLine, ResponseLine)
#: Columns that only findings, stalls and lines with findings have.
FINDING_COLUMNS: Final = (_columns(FindingLine, StallLine) - _FRAME) | {"findings", "repeats", "repeated"}
#: Columns of frames that are not content of their bodies.
_HEADS: Final = frozenset(
    {
        "v", "ts", "connection_id", "note", "marked", "client", "server", "api", "api_key", "api_version",
        "correlation_id", "client_id", "client_instance_id", "principal", "size", "offset", "request_offset",
        "request_ts", "latency_us", "request_size", "not_decoded",
    }
)  # fmt: skip
_FACTS: Final = _FRAME - _HEADS - FINDING_COLUMNS
#: Columns for which a frame must be decoded. Even header values may change with a diagnosis.
_DECODED: Final = _FACTS | {"correlation_id", "client_id", "client_instance_id", "not_decoded"}


@dataclass(frozen=True, slots=True)
class Needs:
    """The parts of the inspection that cost time and that only some columns need.

    Attributes:
        findings: Rules with their trackers, and stalls of groups. Bugs in kproxy are reported even without it.
        facts: Content of bodies: topics, groups, errors, brokers.
        decoding: Decoding of all frames. Without it, only frames that other lines depend on are decoded, e.g. logins.
    """

    findings: bool = True
    facts: bool = True
    decoding: bool = True


#: For outputs that may read any column.
EVERYTHING: Final = Needs()


def needs_of(columns: Set[str]) -> Needs:
    """Return what an output that reads only these columns needs. ``kind`` also means lines of findings and stalls."""
    needs_findings = "kind" in columns or not FINDING_COLUMNS.isdisjoint(columns)
    needs_facts = needs_findings or not _FACTS.isdisjoint(columns)  # stalls follow from facts
    return Needs(needs_findings, needs_facts, decoding=needs_facts or not _DECODED.isdisjoint(columns))
