"""The differences between two traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kproxy.comparison.bodies import DifferenceKind
from kproxy.comparison.traffic import RecordedTraffic


class Aspect(StrEnum):
    """The aspect in which two traces differ."""

    FIELD = "field"
    ERROR_CODE = "error code"
    VERSION = "version"
    FINDING = "finding"
    REQUEST = "request"
    RESPONSE = "response"
    ORDER = "order"
    CONNECTION = "connection"


@dataclass(slots=True)
class TrafficDifference:
    """A difference, and how often it occurs.

    `subject` is the code of a finding, or the client id of a connection. `versions` has the pairs of versions
    in A and B with which it occurs; `path` is the field in the schema. `a` and `b` are the values where it first
    occurs, `place_a` and `place_b` the exchanges (``#0:12``), empty if there is none. `why` distinguishes a missing
    field from null, `owner` names the message or payload that has the field.
    """

    aspect: Aspect
    subject: str = ""
    api: str = ""
    versions: list[tuple[int, int]] = field(default_factory=list)
    direction: str = ""
    path: str = ""
    a: Any = None
    b: Any = None
    why: DifferenceKind = DifferenceKind.VALUE
    owner: str = ""
    place_a: str = ""
    place_b: str = ""
    count: int = 1


@dataclass(slots=True)
class TrafficComparison:
    """The differences, the most important ones first, and notes about deviations that do not count as differences."""

    a: RecordedTraffic
    b: RecordedTraffic
    differences: list[TrafficDifference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pairs: int = 0
