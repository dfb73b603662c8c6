"""FirstFindings: the cause of each repeat, and the number of a connection's repeats that frames mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeAlias, TypeVar

from dissectors.bounded import BoundedDict
from kproxy.trace.lines import CloseLine, FindingLine, RepeatedFinding, RequestLine, ResponseLine

#: A limit, so that a long trace cannot fill the memory.
_MAX_ENTRIES = 100_000

#: A frame with a finding: connection, direction, offset. A finding with its own line has only the connection.
_Location: TypeAlias = tuple[str, str | None, int | None]

CauseT = TypeVar("CauseT")


class FirstFindings(Generic[CauseT]):
    """Remembers the cause of each finding in a line, so that the repeats that refer to it can be counted."""

    def __init__(self) -> None:
        self._causes: BoundedDict[tuple[str, _Location], CauseT] = BoundedDict(_MAX_ENTRIES)
        self._marked: BoundedDict[tuple[str, str], int] = BoundedDict(_MAX_ENTRIES)  # by code and connection

    def add(self, code: str, line: RequestLine | ResponseLine | FindingLine, cause: CauseT) -> None:
        """Remember the cause of a finding in a line."""
        location: _Location = (line.connection_id, None, None)
        if not isinstance(line, FindingLine):
            location = line.connection_id, _direction(line), line.offset
        self._causes.setdefault((code, location), cause)

    def repeats_with_causes(self, line: RequestLine | ResponseLine) -> Iterator[tuple[CauseT | None, RepeatedFinding]]:
        """Yield the repeats in a frame with their causes; None if the line of the finding is missing."""
        for repeat in line.repeats:
            key = repeat.code, line.connection_id
            self._marked[key] = self._marked.get(key, 0) + repeat.count
            yield self.find(repeat, line), repeat

    def find(self, repeat: RepeatedFinding, line: RequestLine | ResponseLine) -> CauseT | None:
        """Return the cause of a repeat in a frame; None if the line of the finding is missing."""
        connection_id = repeat.connection_id or line.connection_id
        location: _Location = (connection_id, None, None)
        if repeat.offset is not None:
            location = connection_id, repeat.direction or _direction(line), repeat.offset
        return self._causes.get((repeat.code, location))

    def unmarked_repeats(self, line: CloseLine) -> Iterator[tuple[str, int]]:
        """Yield the code and number of a closed connection's repeats that no frame has marked."""
        for repeat in line.repeated:
            count = repeat.count - self._marked.pop((repeat.code, line.connection_id), 0)
            if count > 0:
                yield repeat.code, count


def _direction(line: RequestLine | ResponseLine) -> str:
    return "request" if isinstance(line, RequestLine) else "response"
