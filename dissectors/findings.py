"""A finding: what is wrong, where, who is to blame, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dissectors.messages.diagnosis_result import Diagnosis


class Severity(StrEnum):
    """How bad: an error breaks somebody, a warning works but is wrong or risky."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule's check yields: a sentence, and where. The span is half-open and counts from the length prefix.

    Args:
        message: One sentence that stands alone: what is there, and what should be.
        path: The field as users write it, e.g. ``brokers[1].port``.
        hint: What to do about it.
        blame: Who is wrong, where that is not what the rule says.
        severity: How bad, where that is not what the rule says.
        expected, got: The two sides of the sentence, where they can be said in a few words.
        cause: What tells this problem apart from another of the same rule at the same API and field, e.g. the topic:
            a problem is told once per cause, then counted.
        diagnosis: How the layout departs, if that is what is wrong.
    """

    message: str
    start: int | None = None
    end: int | None = None
    path: str | None = None
    hint: str | None = None
    blame: str | None = None
    severity: Severity | None = None
    expected: str | None = None
    got: str | None = None
    cause: str = ""
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with the name of the rule that saw it."""

    code: str
    name: str
    severity: Severity
    blame: str | None
    problem: Problem
