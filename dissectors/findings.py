"""Problems that rules report, and findings: problems with the code of their rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dissectors.messages.diagnosis_result import Diagnosis


class Severity(StrEnum):
    """An error breaks a client or a broker; a warning works but is wrong or risky."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule reports: a sentence and its place. The span is half-open and counts from the length prefix.

    Args:
        message: One self-contained sentence: what was observed and what was expected.
        path: The field as users write it, e.g. ``brokers[1].port``.
        hint: What to do about it.
        blame: The responsible side, if it differs from the rule's.
        severity: The severity, if it differs from the rule's.
        expected, got: The expected and the observed value, if a few words suffice.
        cause: Distinguishes root causes of one rule at the same API and field, e.g. the topic. Each root cause is
            reported once; repeats are counted.
        diagnosis: How the frame departs from its layout, if that is the problem.
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
    """A problem with code, name, severity and blame from its rule."""

    code: str
    name: str
    severity: Severity
    blame: str | None
    problem: Problem
