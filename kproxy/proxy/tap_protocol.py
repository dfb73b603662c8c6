"""Encodes and decodes the messages that the relay's tap sends to the inspector's process.

The stream is a version byte, followed by messages: each has a head (kind u8, direction u8, connection id u64,
nanoseconds since the epoch u64, length u32, big-endian) and a payload of that length. Payloads of frequent messages are
binary, all others are JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from dissectors.connections.events import Direction
from kproxy.proxy.tap_messages import (
    Behind,
    Bye,
    Close,
    End,
    Hello,
    ListenersChanged,
    Message,
    Missed,
    Open,
    Query,
    TapData,
    TapGap,
    TapReplaced,
    TapSkipped,
    TapTlsFailed,
)

VERSION: Final = 2
HEAD_BYTES: Final = 64  # bytes sent of a skipped frame: enough for its correlation id

_HELLO, _OPEN, _DATA, _SKIPPED, _GAP, _END, _CLOSE, _MISSED, _BYE = range(1, 10)
_REPLACED, _TLS_FAILED, _LISTENERS, _QUERY, _BEHIND = range(10, 15)
_HEAD = struct.Struct(">BBQQI")
_SIZE = struct.Struct(">I")
_COUNTS = struct.Struct(">QQ?")
_DIRECTIONS = tuple(Direction)


def encode_hello(hello: Hello) -> bytes:
    """Encode the version byte and the first message."""
    return bytes([VERSION]) + _encode_json(_HELLO, 0, hello.at, hello[1:])


def encode_listeners(changed: ListenersChanged) -> bytes:
    return _encode_json(_LISTENERS, 0, changed.at, changed.listeners)


def encode_open(opened: Open) -> bytes:
    return _encode_json(_OPEN, opened.connection_id, opened.at, opened[2:])


def encode_data_head(connection_id: int, direction: Direction, at: int, size: int) -> bytes:
    """Encode the head of a `TapData`. The payload follows separately, so that it is not copied."""
    return _HEAD.pack(_DATA, direction, connection_id, at, size)


def encode_replaced_head(connection_id: int, direction: Direction, at: int, size: int) -> bytes:
    """Encode the head of a `TapReplaced`. The frame follows separately."""
    return _HEAD.pack(_REPLACED, direction, connection_id, at, size)


def encode_skipped(connection_id: int, direction: Direction, at: int, size: int, head: bytes) -> bytes:
    return _HEAD.pack(_SKIPPED, direction, connection_id, at, 4 + len(head)) + _SIZE.pack(size) + head


def encode_gap(gap: TapGap) -> bytes:
    return _HEAD.pack(_GAP, gap.direction, gap.connection_id, gap.at, _COUNTS.size) + _COUNTS.pack(*gap[3:])


def encode_end(connection_id: int, direction: Direction, at: int, how: str) -> bytes:
    payload = how.encode()
    return _HEAD.pack(_END, direction, connection_id, at, len(payload)) + payload


def encode_tls_failed(failed: TapTlsFailed) -> bytes:
    return _encode_json(_TLS_FAILED, failed.connection_id, failed.at, failed[2:])


def encode_close(
    connection_id: int, at: int, by: str | None, how: str, request_bytes: int, response_bytes: int
) -> bytes:
    return _encode_json(_CLOSE, connection_id, at, [by, how, request_bytes, response_bytes])


def encode_behind(behind: Behind) -> bytes:
    return _encode_json(_BEHIND, 0, behind.at, behind[1:])


def encode_missed(missed: Missed) -> bytes:
    return _encode_json(_MISSED, 0, missed.at, missed[1:])


def encode_bye(bye: Bye) -> bytes:
    return _encode_json(_BYE, 0, bye.at, bye[1:])


def encode_query(query: Query) -> bytes:
    return _encode_json(_QUERY, 0, query.at, query[1:])


def encode(message: Message) -> bytes:
    """Encode any message except the first, in the same way as the relay."""
    if isinstance(message, TapData):
        return encode_data_head(*message[:3], len(message.payload)) + message.payload
    if isinstance(message, TapReplaced):
        return encode_replaced_head(*message[:3], len(message.frame)) + message.frame
    return _ENCODERS[type(message)](message)


def _encode_json(kind: int, connection_id: int, at: int, fields: Any) -> bytes:
    payload = json.dumps(fields).encode()
    return _HEAD.pack(kind, 0, connection_id, at, len(payload)) + payload


class TapDecoder:
    """Decodes messages from chunks of any size."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0  # size that `_rest` must reach to hold the next message
        self._begun = False

    def receive_data(self, data: bytes | memoryview) -> list[Message]:
        """Process the next bytes; return the messages that they complete, in order. No message refers to `data`.

        Raises:
            ValueError: The stream has another version.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data, self._rest = memoryview(self._rest), bytearray()
        else:
            data = memoryview(data)
        position, end = 0, len(data)
        if not self._begun and data:
            if data[0] != VERSION:
                raise ValueError(
                    f"the tap uses version {data[0]}, not {VERSION}: run both processes from the same kproxy"
                )
            self._begun = True
            position = 1
        messages: list[Message] = []
        self._needed = _HEAD.size
        while end - position >= _HEAD.size:
            kind, direction, connection_id, at, size = _HEAD.unpack_from(data, position)
            start = position + _HEAD.size
            if start + size > end:
                self._needed = _HEAD.size + size
                break
            position = start + size
            payload = bytes(data[start:position])
            if kind == _DATA:
                messages.append(TapData(connection_id, _DIRECTIONS[direction], at, payload))
            else:
                messages.append(_READERS[kind](connection_id, _DIRECTIONS[direction], at, payload))
        self._rest += data[position:]
        return messages


def _read_hello(_id: int, _direction: Direction, at: int, payload: bytes) -> Hello:
    node, pid, listeners, *optional = json.loads(payload)
    return Hello(at, node, pid, [(listener, upstream) for listener, upstream in listeners], *optional)


def _read_listeners(_id: int, _direction: Direction, at: int, payload: bytes) -> ListenersChanged:
    return ListenersChanged(at, [(listener, upstream) for listener, upstream in json.loads(payload)])


def _read_open(connection_id: int, _direction: Direction, at: int, payload: bytes) -> Open:
    client, server, listener, tls, slot, resumed, plaintext_upstream = json.loads(payload)
    if resumed is not None:
        request, response = resumed
        resumed = tuple(request), tuple(response)
    return Open(connection_id, at, client, server, listener, tls, slot, resumed, plaintext_upstream)


_READERS: Final[dict[int, Callable[[int, Direction, int, bytes], Message]]] = {
    _HELLO: _read_hello,
    _LISTENERS: _read_listeners,
    _OPEN: _read_open,
    _REPLACED: TapReplaced,
    _SKIPPED: lambda id_, direction, at, payload: TapSkipped(
        id_, direction, at, _SIZE.unpack_from(payload)[0], payload[_SIZE.size :]
    ),
    _GAP: lambda id_, direction, at, payload: TapGap(id_, direction, at, *_COUNTS.unpack(payload)),
    _TLS_FAILED: lambda id_, _, at, payload: TapTlsFailed(id_, at, *json.loads(payload)),
    _END: lambda id_, direction, at, payload: End(id_, direction, at, payload.decode()),
    _CLOSE: lambda id_, _, at, payload: Close(id_, at, *json.loads(payload)),
    _BEHIND: lambda _id, _, at, payload: Behind(at, *json.loads(payload)),
    _MISSED: lambda _id, _, at, payload: Missed(at, *json.loads(payload)),
    _BYE: lambda _id, _, at, payload: Bye(at, *json.loads(payload)),
    _QUERY: lambda _id, _, at, payload: Query(at, *json.loads(payload)),
}
_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    ListenersChanged: encode_listeners,
    Open: encode_open,
    TapSkipped: lambda message: encode_skipped(*message),
    TapGap: encode_gap,
    TapTlsFailed: encode_tls_failed,
    End: lambda message: encode_end(*message),
    Close: lambda message: encode_close(*message),
    Behind: encode_behind,
    Missed: encode_missed,
    Bye: encode_bye,
    Query: encode_query,
}
