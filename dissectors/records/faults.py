"""Faults in record data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dissectors.records.layout_deviations import Deviation


class FaultKind(Enum):
    """The kinds of faults."""

    CRC = auto()
    OTHER_CHECKSUM = auto()
    LENGTH = auto()
    MAGIC = auto()
    CODEC = auto()
    COMPRESSION = auto()
    SNAPPY_HEADER = auto()
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
    """A fault in a field of record data: a sentence that does not name the location, and the location.

    `start` and `end` count from the start of the field; `path` is relative to it, e.g. ``("0", "records", "3",
    "length")``. `proven` faults are wrong anywhere; others only in what a client or broker sends. `deviation` is the
    wrong encoding of the records, `rivals` are other encodings in which the same bytes can be read.
    """

    kind: FaultKind
    path: tuple[str, ...]
    start: int
    end: int
    message: str
    expected: str | None = None
    got: str | None = None
    proven: bool = True
    deviation: Deviation | None = None
    rivals: tuple[Deviation, ...] = ()
