"""Sends several requests at once (pipelined) and pairs each with its response."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dissectors.messages.message import read_request
from dissectors.schemas.codes import ApiKey
from kproxy.client.connection import BrokerConnection, NoResponse

_MIN_REQUEST_SIZE = 12  # a length prefix, API key and version, a correlation id


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request frame and its response frame, both with their length prefixes.

    `response` is None if none is expected (Produce with acks=0) or none arrived; in the latter case, `problem` is a
    sentence. `problem` also reports a response to another request. `latency_ms` counts from the moment when
    all requests were sent.
    """

    request: bytes
    response: bytes | None = None
    latency_ms: float | None = None
    problem: str | None = None


async def send_pipelined(connection: BrokerConnection, requests: Sequence[bytes]) -> list[SentRequest]:
    """Send all requests without waiting, then receive their responses.

    Kafka answers in the order of the requests, so each response is paired with the oldest request; a correlation id
    that differs from that request's is a problem. After the first missing response, no others are awaited.
    """
    connection.send(b"".join(requests))
    sent_at = time.perf_counter()
    exchanges: list[SentRequest] = []
    problem = None
    for request in requests:
        if problem or not expects_response(request):
            exchanges.append(SentRequest(request, problem=problem))
            continue
        try:
            response = await connection.receive()
        except NoResponse as no_response:
            exchanges.append(SentRequest(request, problem=str(no_response)))
            problem = "not answered either"
        else:
            latency_ms = 1000 * (time.perf_counter() - sent_at)
            exchanges.append(SentRequest(request, response, latency_ms, correlation_id_mismatch(request, response)))
    return exchanges


def expects_response(request: bytes) -> bool:
    """Whether the broker responds to this request: it does unless this is a Produce with acks=0."""
    if len(request) < _MIN_REQUEST_SIZE or int.from_bytes(request[4:6], "big") != ApiKey.PRODUCE:
        return True
    return read_request(request).body.get("acks") != 0


def split_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Cut bytes into whole frames by their length prefixes; return the frames and the remaining bytes."""
    frames, start = [], 0
    while start + 4 <= len(data):
        end = start + 4 + int.from_bytes(data[start : start + 4], "big", signed=True)
        if not start + _MIN_REQUEST_SIZE <= end <= len(data):
            break
        frames.append(data[start:end])
        start = end
    return frames, data[start:]


def correlation_id_mismatch(request: bytes, response: bytes) -> str | None:
    """Return a sentence if the correlation ids of a request and a response frame differ, else None."""
    expected, actual = (int.from_bytes(field, "big", signed=True) for field in (request[8:12], response[4:8]))
    return None if actual == expected else f"the response has correlation id {actual}, not {expected} as its request"
