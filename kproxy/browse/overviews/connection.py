"""A connection as the overview shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kproxy.counting.counts import Severities


class WaitingRequest(NamedTuple):
    """A request without response, and the row to find it at; `since` in ns."""

    api: str | None
    api_version: int | None
    correlation_id: int | None
    since: int
    row: int


class ThrottledResponse(NamedTuple):
    """A response that told its client to slow down; `at` in ns."""

    ms: int
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class ConnectionSummary:
    """A connection. Times are ns since the epoch, latencies us, sizes bytes of frames with their length prefix.

    `opened_at` is None if its beginning is not in the trace, `closed_at` as long as it is open; `closed_by` is client,
    server or proxy, `closed_how` fin, reset and so on. `first_row` and `last_row` are rows of the index.

    `client_ids` are those seen, the first eight of them; `more_client_ids`: there were others. `versions`
    are those used of each API. `sasl` is how far a login got: ``asked`` for, ``done`` (no step was refused) or
    ``failed``, with `sasl_error`; `principal` is who the client has logged in as. `refusals` counts responses with an
    error, `errors` how many carry which. `throttled` counts responses, `throttled_ms` is their sum. `unanswered` is
    known at the end. `repeated` counts findings that were told before, here or elsewhere; `findings` are the others.
    """

    connection_id: str
    client: str
    server: str
    listener: str | None
    tls: bool
    midstream: bool
    client_ids: tuple[str, ...]
    more_client_ids: bool
    software_name: str | None
    software_version: str | None
    sasl: str | None
    sasl_error: str | None
    principal: str | None
    opened_at: int | None
    first_at: int
    last_at: int
    closed_at: int | None
    closed_by: str | None
    closed_how: str | None
    versions: Mapping[str, tuple[int, ...]]
    requests: int
    responses: int
    request_bytes: int
    response_bytes: int
    in_flight: int
    oldest: WaitingRequest | None
    unanswered: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None
    refusals: int
    errors: tuple[tuple[str, int], ...]
    throttled: int
    throttled_ms: int
    last_throttle: ThrottledResponse | None
    findings: Severities
    repeated: int
    gaps: int
    gap_bytes: int
    first_row: int
    last_row: int

    @property
    def is_open(self) -> bool:
        """Whether its end was not seen yet."""
        return self.closed_at is None
