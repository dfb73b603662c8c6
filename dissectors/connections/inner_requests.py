"""Find requests inside another one, of which the client sent only part before the next request."""

from __future__ import annotations

from typing import NamedTuple

from dissectors import schemas
from dissectors.connections.connection import is_plausible_request
from dissectors.messages.message import Message

#: The number of bytes before the client id of a request, including the length prefix.
_HEAD_SIZE = 14

#: The most by which the correlation id of the next request may be greater.
_MAX_ID_STEP = 16

#: The most occurrences of the client id that are examined.
_MAX_OCCURRENCES = 64


class InnerRequest(NamedTuple):
    """A request inside another one: its offset in the outer frame, its API, version and correlation id."""

    start: int
    api: str
    version: int
    correlation_id: int


def inner_request(message: Message) -> InnerRequest | None:
    """Find the first request of the same client that begins inside a request.

    It has the same client id, a plausible length prefix, and a correlation id slightly above that of the outer request.
    """
    outer_id = message.header.get("correlation_id")
    if not message.is_request or not message.header.get("client_id") or outer_id is None:
        return None
    frame, position = message.frame, _HEAD_SIZE
    client_id_bytes = frame[
        _HEAD_SIZE - 2 : _HEAD_SIZE + int.from_bytes(frame[_HEAD_SIZE - 2 : _HEAD_SIZE], "big")
    ]  # with its length
    for _ in range(_MAX_OCCURRENCES):
        position = frame.find(client_id_bytes, position + 1)
        if position < 0:
            return None
        start = position + 2 - _HEAD_SIZE
        if start < _HEAD_SIZE or not is_plausible_request(frame, start):
            continue
        inner_id = int.from_bytes(frame[start + 8 : start + 12], "big", signed=True)
        api_key, version = (
            int.from_bytes(frame[start + field_offset : start + field_offset + 2], "big") for field_offset in (4, 6)
        )
        api = schemas.api(api_key)
        if api is not None and 0 < inner_id - outer_id <= _MAX_ID_STEP:
            return InnerRequest(start, api.name, version, inner_id)
    return None
