"""The index: what the list shows for each row without parsing its lines again, and where they are; 60 bytes per row."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from enum import IntEnum
from functools import lru_cache

from kproxy.browse.rows.by_time import RowsByTime
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.pairing import RequestPairing
from kproxy.trace.timestamps import nanoseconds


class RowState(IntEnum):
    """The state of a row."""

    WAITING = 0
    ANSWERED = 1
    ONE_WAY = 2  # a Produce with acks=0, which gets no response
    UNANSWERED = 3  # its connection has ended
    ORPHAN = 4  # a response whose request is missing
    EVENT = 5  # not a frame
    UNSEEN = 6  # the response may be in a gap


#: Severities by level; a row has the level of its most severe finding, even if that is a repeat.
SEVERITIES = ("", *sorted(RANK, key=RANK.__getitem__))
_LEVEL = {name: level for level, name in enumerate(SEVERITIES)}

_NAME_CHARACTERS = 200

#: The latest time that fits in 64 bits, in the year 2262; only a damaged capture has later ones.
_LATEST = (1 << 63) - 1


@lru_cache(maxsize=256)
def _parse_second(text: str) -> int:
    return nanoseconds(text + ".000000Z")


def time_of(ts: str) -> int:
    """Return the `ts` of a line in ns since the epoch; 0 if it is invalid or out of range."""
    try:
        at = _parse_second(ts[:19]) + int(ts[20:26]) * 1000
    except (ValueError, OverflowError):
        return 0
    return at if 0 <= at <= _LATEST else 0


class RowIndex:
    """Rows in the order of their first line. Row numbers are stable; those below `first` have been discarded.

    `by_time` is None until a line is earlier than a preceding one: a connection is only reported once its protocol is
    known, and captures are read one after the other.

    The arrays are public for sorting and filtering; entry ``row - first`` of each belongs to a row. `requests` are the
    rows of the requests in flight that the last line concerns: the row of the line itself, if it is a request that
    expects a response; the row of a response's request; or the rows of the requests that no longer wait
    (`RequestPairing.end`). These rows may have been discarded.
    """

    def __init__(self) -> None:
        self.first = 0
        self.by_time: RowsByTime | None = None
        self.at = array("q")  # ns since the epoch, of the first line
        self.latency = array("q")  # us, -1 if unknown
        self.size = array("I")  # bytes of both frames
        self.api = array("h")  # API key, -1 if unknown
        self.connection = array("I")
        self.client = array("I")
        self.state = array("b")
        self.severity = array("b")  # index into `SEVERITIES`
        self.errors = array("b")  # whether the response has an error
        self.connection_events = array("b")  # whether the row opens or closes a connection
        self.locations = (array("q"), array("q"))  # of the request's (or event's) line and of the response's; or -1
        self.sizes = (array("I"), array("I"))  # bytes of these lines
        self.connections = Names()
        self.clients = Names()
        self.servers: dict[int, str] = {}  # by connection
        self.latest_at = 0  # the latest time in any line, ns
        self.changed: set[int] = set()  # rows added or changed; the reader clears it
        self.requests: Collection[int] = ()
        self._pairing: RequestPairing[int] = RequestPairing()

    @property
    def end(self) -> int:
        """One past the last row."""
        return self.first + len(self.at)

    def add(self, line: Line, location: int, size: int, at: int) -> int:
        """Add the next line, `size` bytes at `location`, with time `at` (ns); return its row number."""
        if at > self.latest_at:
            self.latest_at = at
        connection = self.connections.number(line.connection_id)
        self.requests = ()
        if isinstance(line, ResponseLine):
            return self._add_response(line, connection, location, size, at)
        level, state, api, frame_bytes, client = 0, RowState.EVENT, -1, 0, 0
        if isinstance(line, RequestLine):
            state = RowState.ONE_WAY if line.acks == 0 else RowState.WAITING
            api = -1 if line.api_key is None else line.api_key
            frame_bytes = line.size
            client = self.clients.number(line.client_id or "")
            self.servers[connection] = line.server
            level = _worst_level(line)
            if self._pairing.add(line, self.end):
                self.requests = (self.end,)
        elif isinstance(line, FindingLine):
            level = _LEVEL.get(line.severity, 0)
            self._mark_request(line, level)
        elif isinstance(line, GapLine):
            frame_bytes = line.bytes
            self._end_requests(line, RowState.UNSEEN)
        elif isinstance(line, OpenLine | CloseLine):
            self._end_requests(line, RowState.UNANSWERED)
        row = self._add_row(at, api, frame_bytes, connection, client, state, level, 0)
        self.locations[0].append(location)
        self.sizes[0].append(size)
        self.connection_events[-1] = isinstance(line, OpenLine | CloseLine)
        self.locations[1].append(-1)
        self.sizes[1].append(0)
        return row

    def _add_response(self, line: ResponseLine, connection: int, location: int, size: int, at: int) -> int:
        level = _worst_level(line)
        row = self._pairing.match(line)
        if row is not None:
            self.requests = (row,)
        if row is None or row < self.first:
            api = -1 if line.api_key is None else line.api_key
            client = self.clients.number(line.client_id or "")
            self.servers[connection] = line.server
            row = self._add_row(at, api, line.size, connection, client, RowState.ORPHAN, level, bool(line.errors))
            self.locations[0].append(-1)
            self.sizes[0].append(0)
            self.locations[1].append(location)
            self.sizes[1].append(size)
            self.latency[-1] = _latency(line)
        else:
            entry = row - self.first
            self.state[entry] = RowState.ANSWERED
            self.latency[entry] = _latency(line)
            self.size[entry] = _clamp_size(self.size[entry] + line.size)
            self.severity[entry] = max(self.severity[entry], level)
            self.errors[entry] = bool(line.errors)
            self.locations[1][entry] = location
            self.sizes[1][entry] = size
            self.changed.add(row)
        return row

    def _add_row(
        self, at: int, api: int, size: int, connection: int, client: int, state: RowState, level: int, errors: int
    ) -> int:
        row = self.end
        self.at.append(at)
        if self.by_time is not None:
            self.by_time.add(row)
        elif row > self.first and at < self.at[-2]:
            self.by_time = RowsByTime(self.time, range(self.first, row))
            self.by_time.add(row)
        self.latency.append(-1)
        self.size.append(_clamp_size(size))
        self.api.append(max(-1, min(api, 0x7FFF)))
        self.connection.append(connection)
        self.client.append(client)
        self.state.append(state)
        self.severity.append(level)
        self.errors.append(errors)
        self.connection_events.append(0)
        self.changed.add(row)
        return row

    def _mark_request(self, line: FindingLine, level: int) -> None:
        """Raise the severity of a waiting request's row to the severity of a finding about the request."""
        if line.direction != "request" or line.offset is None:
            return
        row = self._pairing.find(line.connection_id, line.offset)
        if row is not None and row >= self.first:
            self.severity[row - self.first] = max(self.severity[row - self.first], level)
            self.changed.add(row)

    def _end_requests(self, line: OpenLine | CloseLine | GapLine, state: RowState) -> None:
        self.requests = self._pairing.end(line)
        for row in self.requests:
            if row >= self.first:
                self.state[row - self.first] = state
                self.changed.add(row)

    def time(self, row: int) -> int:
        """Return a row's time in ns since the epoch: -1 if discarded, the latest possible one for a future row."""
        if row < self.first:
            return -1
        return self.at[row - self.first] if row < self.end else _LATEST

    def waiting(self) -> int:
        """Return the number of requests in flight."""
        return len(self._pairing)

    def latency_or_wait(self, row: int, now: int) -> int | None:
        """Return the latency of a row in us, or how long it has waited at `now` (ns); None if unknown."""
        entry = row - self.first
        latency = self.latency[entry]
        if latency >= 0:
            return latency
        return max(0, now - self.at[entry]) // 1000 if self.state[entry] == RowState.WAITING else None

    def forget(self, location: int) -> None:
        """Discard the oldest rows whose lines are before `location`."""
        request_locations, response_locations = self.locations
        count = 0
        while count < len(request_locations) and max(request_locations[count], response_locations[count]) < location:
            count += 1
        if not count:
            return
        for column in (self.at, self.latency, self.size, self.api, self.connection, self.client, self.state,
                       self.severity, self.errors, self.connection_events, *self.locations, *self.sizes):  # fmt: skip
            del column[:count]
        if self.by_time is not None:
            self.by_time.forget(self.first + count)
        self.first += count
        self.changed = {row for row in self.changed if row >= self.first}


class Names:
    """Maps texts to consecutive numbers from 0, and back; long texts are truncated."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def number(self, text: str) -> int:
        """Return the number of a text; a new text gets the next number."""
        text = text[:_NAME_CHARACTERS]
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return number

    def ranks(self) -> list[int]:
        """Return the alphabetical rank of each number's text."""
        ranks = [0] * len(self._texts)
        for rank, number in enumerate(sorted(range(len(self._texts)), key=self._texts.__getitem__)):
            ranks[number] = rank
        return ranks

    def __getitem__(self, number: int) -> str:
        return self._texts[number]


def _worst_level(line: RequestLine | ResponseLine) -> int:
    worst = 0
    if line.findings:
        worst = max(_LEVEL.get(finding.severity, 0) for finding in line.findings)
    if line.repeats:
        worst = max(worst, *(_LEVEL.get(repeat.severity, 0) for repeat in line.repeats))
    return worst


def _clamp_size(size: int) -> int:
    """Clamp a number of bytes to what the array can hold."""
    return max(0, min(size, 0xFFFFFFFF))


def _latency(line: ResponseLine) -> int:
    return -1 if line.latency_us is None else max(-1, min(line.latency_us, 1 << 62))
