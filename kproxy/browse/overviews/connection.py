"""A connection as a row of the overview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kproxy.counting.counts import Severities


class WaitingRequest(NamedTuple):
    """A request in flight; `since` is in ns, `row` is its row in the index."""

    api: str | None
    api_version: int | None
    correlation_id: int | None
    since: int
    row: int


class ThrottledResponse(NamedTuple):
    """A response with a throttle time; `at` is in ns."""

    ms: int
    at: int
    row: int


@dataclass(frozen=True, slots=True)
class ConnectionSummary:
    """A connection. Times are in ns since the epoch, latencies in us; sizes are bytes, including length prefixes.

    `opened_at` is None if the trace begins later, `closed_at` while the connection is open; `closed_by` is client,
    server or proxy, `closed_how` fin, reset and so on. `first_row` and `last_row` are rows of the index.

    `client_ids` are the first eight seen; `more_client_ids` is true if there were others. `versions` are the versions
    used, by API. `sasl` is the state of the login: ``asked`` (started), ``done`` (no step failed) or ``failed``, with
    `sasl_error`; `principal` is the authenticated client, `client_instance_id` its process (KIP-1313).
    `refusals` counts responses with an error, `errors` responses by error. `throttled` counts responses,
    `throttled_ms` is their sum. `unanswered` is set when the connection ends. `repeated` counts repeats of findings
    already reported, here or elsewhere; `findings` the others.
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
    client_instance_id: str | None
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
        """Whether no close has been seen."""
        return self.closed_at is None
