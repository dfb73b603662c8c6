"""A finding: what is wrong, where, who is to blame, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad: an error breaks somebody, a warning works but is wrong or risky."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule's check yields: a sentence, and where. The span is half-open and counts from the length prefix."""

    message: str
    start: int | None = None
    end: int | None = None
    path: str | None = None
    hint: str | None = None
    blame: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with the name of the rule that saw it."""

    code: str
    name: str
    severity: Severity
    blame: str | None
    problem: Problem
