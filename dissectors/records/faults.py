"""What can be wrong with record data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dissectors.records.layout_departures import Departure


class FaultKind(Enum):
    """What a fault is about."""

    CRC = auto()
    OTHER_CHECKSUM = auto()
    LENGTH = auto()
    MAGIC = auto()
    CODEC = auto()
    COMPRESSION = auto()
    BOMB = auto()
    COUNT = auto()
    ABSURD_COUNT = auto()
    LAST_OFFSET = auto()
    OFFSETS = auto()
    TIMESTAMP = auto()
    HEADER_KEY = auto()
    ENCODING = auto()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong in a field of record data: a sentence about it without its place, and where.

    `start` and `end` count from the start of the field; `path` is below it, e.g. ``("0", "records", "3", "length")``.
    `proven` faults are wrong wherever such bytes stand, the others only in what a client or broker says. `departure`
    is how the records are written, `rivals` are other ways that leave these bytes.
    """

    kind: FaultKind
    path: tuple[str, ...]
    start: int
    end: int
    message: str
    expected: str | None = None
    got: str | None = None
    proven: bool = True
    departure: Departure | None = None
    rivals: tuple[Departure, ...] = ()
