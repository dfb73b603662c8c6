"""APIs and their versions: frequency, latency, errors, requests in flight."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dissectors import schemas
from dissectors.bounded import MAX_NAME_LENGTH
from kproxy.counting.counts import Severities, SeverityCounts
from kproxy.counting.frame_figures import FrameFigures, merge_figures, new_figures
from kproxy.counting.percentiles import Histogram
from kproxy.counting.rates import RateClock, RateSeries
from kproxy.trace.lines import GapLine, Line, RequestLine, ResponseLine

#: Maximum number of unknown pairs of API key and version that are listed.
MAX_UNKNOWN = 1_000

_Key = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class ApiUsage:
    """An API with its `versions`, or one version. Latencies are in us; sizes are bytes, including length prefixes.

    `api` and `api_key` are None for responses whose request is unknown and for SASL tokens, `version` for a whole API.
    `rate` is requests per second (see `Apis.rows`), `minute` requests in each second of the last minute,
    `all_time` requests in each equal part of the whole trace (`Apis.width`). `one_way` requests expect no response
    (acks=0), `unanswered` ones got none before their connection ended. `refusals` counts responses with an error,
    `errors` responses by error. `slowest_row` and `last_row` are rows of the index.
    """

    api: str | None
    api_key: int | None
    version: int | None
    requests: int
    responses: int
    request_bytes: int
    response_bytes: int
    rate: float
    minute: tuple[int, ...]
    all_time: tuple[int, ...]
    p50_us: int | None
    p95_us: int | None
    p99_us: int | None
    max_us: int | None
    slowest_row: int | None
    one_way: int
    in_flight: int
    unanswered: int
    refusals: int
    errors: tuple[tuple[str, int], ...]
    findings: Severities
    last_row: int
    versions: tuple[ApiUsage, ...] = ()


@dataclass(slots=True)
class _Version:
    """The state of one version of an API."""

    api: str | None
    series: RateSeries
    frames: FrameFigures[Histogram] = field(default_factory=new_figures)
    slowest_row: int | None = None
    one_way: int = 0
    in_flight: int = 0
    unanswered: int = 0
    findings: SeverityCounts = field(default_factory=SeverityCounts)
    last_row: int = 0


class Apis:
    """Counts the lines of a trace by API and version.

    Attributes:
        now: The latest time in any line, ns.
        others: Frames of unknown versions that are not listed because there are more than `MAX_UNKNOWN`.
    """

    def __init__(self) -> None:
        self.now = 0
        self.others = 0
        self._clock = RateClock()
        self._versions: dict[_Key, _Version] = {}
        self._unknown = 0
        self._in_flight: dict[int, _Version] = {}  # by row

    @property
    def width(self) -> int:
        """Length of one part of `ApiUsage.all_time`, in ns."""
        return self._clock.width

    def observe(self, line: Line, row: int, at: int, requests: Collection[int]) -> None:
        """Count the next line, given its row in the index, its time in ns, and the requests it concerns."""
        if at > self.now:
            self.now = at
        if isinstance(line, RequestLine):
            self._clock.move(at)
            version = self._versions.get((line.api_key, line.api_version)) or self._add_version(line)
            if version is not None:
                self._count_request(version, line, row, requests)
        elif isinstance(line, ResponseLine):
            self._clock.move(at)
            version = self._versions.get((line.api_key, line.api_version)) or self._add_version(line)
            if version is not None:
                self._count_response(version, line, row)
            if requests:
                self.count_ended(requests)
        elif requests:
            self.count_ended(requests, unanswered=not isinstance(line, GapLine))

    def count_ended(self, requests: Collection[int], *, unanswered: bool = False) -> None:
        """Count requests, given their rows, as no longer in flight and, if `unanswered`, as unanswered."""
        for row in requests:
            version = self._in_flight.pop(row, None)
            if version is not None:
                version.in_flight -= 1
                version.unanswered += unanswered

    def _add_version(self, line: RequestLine | ResponseLine) -> _Version | None:
        """Add a version; return None if the limit for unknown versions has been reached."""
        key = line.api_key, line.api_version
        if not _is_known(key):
            if self._unknown == MAX_UNKNOWN:
                self.others += 1
                return None
            self._unknown += 1
        version = self._versions[key] = _Version(line.api and line.api[:MAX_NAME_LENGTH], self._clock.series())
        return version

    def _count_request(self, version: _Version, line: RequestLine, row: int, requests: Collection[int]) -> None:
        version.frames.add_request(line)
        version.series.add()
        version.last_row = row
        if line.acks == 0:
            version.one_way += 1
        elif requests and line.api_key is not None:
            self._in_flight[row] = version
            version.in_flight += 1
        if line.findings:
            version.findings.add(line.findings)

    def _count_response(self, version: _Version, line: ResponseLine, row: int) -> None:
        version.last_row = row
        us = line.latency_us
        if us is not None and (us > version.frames.latencies.max or version.slowest_row is None):
            version.slowest_row = row
        version.frames.add_response(line)
        if line.findings:
            version.findings.add(line.findings)

    def rows(self, now: int | None = None) -> list[ApiUsage]:
        """Return the APIs with their versions, busiest first; rates are those at `now` (ns), or means if None."""
        versions_by_api: dict[int | None, list[tuple[_Key, _Version]]] = {}
        for key, version in self._versions.items():
            versions_by_api.setdefault(key[0], []).append((key, version))
        rows = [self._api_row(versions, now) for versions in versions_by_api.values()]
        return sorted(rows, key=lambda row: (-row.requests, -row.responses, row.api or ""))

    def _api_row(self, versions: list[tuple[_Key, _Version]], now: int | None) -> ApiUsage:
        versions.sort(key=lambda item: -1 if item[0][1] is None else item[0][1])
        rows = tuple(self._api_usage(key, [version], now, ()) for key, version in versions)
        return self._api_usage((rows[0].api_key, None), [version for _, version in versions], now, rows)

    def _api_usage(
        self, key: _Key, versions: Sequence[_Version], now: int | None, rows: tuple[ApiUsage, ...]
    ) -> ApiUsage:
        clock, series = self._clock, [version.series for version in versions]
        frames = merge_figures([version.frames for version in versions])
        slowest = max(versions, key=lambda version: (version.slowest_row is not None, version.frames.latencies.max))
        minute = clock.minute(*series, now=self.now if now is None else now)
        p50, p95, p99 = frames.latencies.percentiles(0.5, 0.95, 0.99)
        return ApiUsage(
            api=versions[0].api,
            api_key=key[0],
            version=key[1],
            requests=frames.requests,
            responses=frames.responses,
            request_bytes=frames.request_bytes,
            response_bytes=frames.response_bytes,
            rate=clock.mean_rate(frames.requests) if now is None else clock.rate(minute, now),
            minute=minute,
            all_time=clock.all_time(*series),
            p50_us=p50,
            p95_us=p95,
            p99_us=p99,
            max_us=frames.latencies.max if frames.latencies.count else None,
            slowest_row=slowest.slowest_row,
            one_way=sum(version.one_way for version in versions),
            in_flight=sum(version.in_flight for version in versions),
            unanswered=sum(version.unanswered for version in versions),
            refusals=frames.errors.responses,
            errors=frames.errors.row(),
            findings=Severities.sum(version.findings.row() for version in versions),
            last_row=max(version.last_row for version in versions),
            versions=rows,
        )


def _is_known(key: _Key) -> bool:
    """Whether a Kafka release has that version, or the frame has no API (a SASL token)."""
    api_key, version = key
    if api_key is None or version is None:
        return key == (None, None)
    api = schemas.api(api_key)
    return api is not None and api.min_version <= version <= api.max_version
