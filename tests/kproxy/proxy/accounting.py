"""Check the messages from a tap against every relayed byte."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages, tap_protocol

Stream = tuple[int, Direction]


def frame(size: int, fill: bytes = b"k") -> bytes:
    """Return a frame whose length prefix says `size`."""
    return struct.pack(">i", size) + size * fill


def read_all(sock: socket.socket) -> list[tap_messages.Message]:
    """Read the messages from a socket to its end, and close it."""
    decoder = tap_protocol.TapDecoder()
    messages: list[tap_messages.Message] = []
    with sock:
        sock.setblocking(True)
        while data := sock.recv(1 << 20):
            messages += decoder.receive_data(data)
    return messages


def boundaries(stream: bytes) -> set[int]:
    """Return the offsets at which frames start and end."""
    offsets, position = {0}, 0
    while len(stream) - position >= 4:
        position += 4 + int.from_bytes(stream[position : position + 4], "big")
        offsets.add(position)
    return offsets


def check(messages: Iterable[tap_messages.Message], relayed: dict[Stream, bytes]) -> dict[str, int]:
    """Assert that the messages account for every byte of every stream, in order, and drop only at frame boundaries.

    Returns:
        The number of messages of each type, and the totals ``dropped_bytes`` and ``dropped_frames``.
    """
    positions = dict.fromkeys(relayed, 0)
    counts = {"dropped_bytes": 0, "dropped_frames": 0}
    for message in messages:
        counts[type(message).__name__] = counts.get(type(message).__name__, 0) + 1
        if not isinstance(message, tap_messages.TapData | tap_messages.TapSkipped | tap_messages.TapGap):
            continue
        stream = (message.connection_id, message.direction)
        content, position = relayed[stream], positions[stream]
        frame_offsets = boundaries(content)
        if isinstance(message, tap_messages.TapData):
            end = position + len(message.payload)
            assert content[position:end] == message.payload
        elif isinstance(message, tap_messages.TapSkipped):
            end = position + 4 + message.size
            assert position in frame_offsets
            assert end in frame_offsets
            assert message.head == content[position : min(end, position + tap_protocol.HEAD_BYTES)]
            counts["dropped_frames"] += 1
        else:
            end = position + message.size
            assert end in frame_offsets or end == len(content)
            if message.frames:
                assert position in frame_offsets
            frames = len([offset for offset in frame_offsets if position < offset <= end])
            assert message.frames == (frames if position in frame_offsets else 0)
            counts["dropped_frames"] += frames
        if not isinstance(message, tap_messages.TapData):
            counts["dropped_bytes"] += end - position
        positions[stream] = end
    assert positions == {stream: len(content) for stream, content in relayed.items()}
    return counts
