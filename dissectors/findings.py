"""Problems that rules report, and findings: problems with the code of their rule."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from dissectors.connections.events import RequestReceived
from dissectors.edits import LOOSE_KINDS
from dissectors.messages.diagnosis_result import Diagnosis

_INDEX = re.compile(r"\[\d+\]")


class _Edit(Protocol):
    @property
    def kind(self) -> str: ...


EditT = TypeVar("EditT", bound=_Edit)


class Severity(StrEnum):
    """An error breaks a client or a broker; a warning is about something that works but is wrong or risky."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


#: Severity -> rank; higher is worse.
RANK = {severity.value: rank for rank, severity in enumerate(Severity)}


class ConcernedRequest(NamedTuple):
    """The request that a problem is about, if the event is not its frame. `offset` is its position in the stream."""

    api: str
    version: int
    correlation_id: int
    offset: int

    @classmethod
    def of(cls, request: RequestReceived) -> ConcernedRequest:
        """Create it without the request's body, because problems may be kept until a deadline."""
        message = request.message
        return cls(message.api, message.version, message.correlation_id, request.offset)


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule reports: a sentence and its location. The span is half-open and counts from the length prefix.

    Args:
        message: One self-contained sentence: what was observed and what was expected.
        path: The field as users write it, e.g. ``brokers[1].port``.
        hint: What to do about it.
        blame: The responsible side, if it differs from the rule's.
        severity: The severity, if it differs from the rule's.
        expected, got: The expected and the observed value, if a few words suffice.
        cause: Distinguishes root causes of one rule at the same API and field, e.g. the topic. Each root cause is
            reported once; repeats are counted.
        once_per: Replaces all of a root cause except the rule, for rules that report it once for several clients,
            servers or versions.
        request: The request that the problem is about, if the event is not its frame.
        diagnosis: How the frame deviates from its layout, if that is the problem.
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
    once_per: Hashable = None
    request: ConcernedRequest | None = None
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """A problem with code, name, severity and blame from its rule.

    As text, it is one line. Its `repr`, which a failed assertion shows, has the bytes and the hint, too.

    Attributes:
        code: The rule's code, e.g. ``L005``; codes are never reused. docs/rules.md has a page for each.
        name: The rule's name, e.g. ``field-from-newer-version``.
        severity: How urgent it is.
        blame: Who has to change something: ``broker``, ``client``, ``network`` or ``proxy``; None if nobody.
        problem: The sentence, the field, its bytes, and what to do.
    """

    code: str
    name: str
    severity: Severity
    blame: str | None
    problem: Problem

    @property
    def path(self) -> str | None:
        """The field, e.g. ``brokers[1].port``; None if it is not about one."""
        return self.problem.path

    @property
    def hint(self) -> str | None:
        """What to do about it."""
        return self.problem.hint

    def __str__(self) -> str:
        location = f" at {self.problem.path}" if self.problem.path else ""
        return f"{self.severity} {self.code} {self.name}{location}: {self.problem.message}"

    def __repr__(self) -> str:
        span = f" (bytes {self.problem.start}..{self.problem.end})" if self.problem.start is not None else ""
        hint = f"; fix: {self.problem.hint}" if self.problem.hint else ""
        return f"<{self}{span}{hint}>"


def location_of_cause(path: str | None, edit: EditT | None) -> EditT | str | None:
    """Return the location of a root cause: the edit or, if it is missing or loose, the path of the field.

    Loose edits name a number of bytes, which differs from frame to frame. Apply `without_indexes` to the text.
    """
    return path if edit is None or edit.kind in LOOSE_KINDS else edit


def without_indexes(text: str) -> str:
    """Remove the indexes from paths like ``topics[3].name``, so that all elements of an array have the same text."""
    return _INDEX.sub("[]", text)
