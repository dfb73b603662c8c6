"""Recorded traffic for the benchmarks: unpacked captures, bytes of each connection, and frames with their APIs."""

from __future__ import annotations

import gzip
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import capture  # beside this file

from dissectors.messages.message import api_name
from kproxy.capture import BytesCaptured, Reassembler, open_capture

#: Short recordings of each kind of client; see tests/data/README.md.
TRAFFIC: Final = sorted((Path(__file__).resolve().parents[1] / "tests/data/traffic").glob("*.pcap.gz"))
_LENGTH_BYTES: Final = 4
_HEAD_BYTES: Final = 12  # of a request: length, API key, version, correlation id


def unpacked(directory: Path) -> list[Path]:
    """Unpack the recordings of tests/data into a directory; return their paths."""
    for path in TRAFFIC:
        (directory / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    return [directory / path.stem for path in TRAFFIC]


class Sent(NamedTuple):
    """Bytes in one direction, as TCP delivered them."""

    connection: int
    is_request: bool
    data: bytes
    at: int


class Frame(NamedTuple):
    """A request or response, with its length prefix, in the parts that TCP delivered."""

    api: str
    parts: list[Sent]


def sent(path: Path) -> Iterator[Sent]:
    """Yield the bytes that the clients and brokers in a capture sent, in order."""
    reassembler = Reassembler()
    with open_capture(path) as packets:
        for event in itertools.chain.from_iterable(map(reassembler.receive, packets)):
            if isinstance(event, BytesCaptured):
                yield Sent(event.flow.id, event.direction == 0, event.data, event.at)


def all_sent(paths: Iterable[Path]) -> list[Sent]:
    """Return the bytes sent in several captures, or repeatedly in one, with separate connections for each."""
    all_bytes: list[Sent] = []
    for path in paths:
        first_connection = 1 + max((sent.connection for sent in all_bytes), default=-1)
        all_bytes += (sent._replace(connection=first_connection + sent.connection) for sent in sent(path))
    return all_bytes


def frames(path: Path) -> Iterator[Frame]:
    """Yield the frames of a capture, with their APIs; the capture must have its connections from their start."""
    waiting: dict[tuple[int, bool], list[Sent]] = defaultdict(list)
    apis_in_flight: dict[tuple[int, bytes], str] = {}
    for part in sent(path):
        connection, is_request, _, _ = part
        parts = waiting[connection, is_request]
        parts.append(part)
        while (head := b"".join(piece.data for piece in parts)[:_HEAD_BYTES]) and (
            sum(len(piece.data) for piece in parts)
            >= (size := _LENGTH_BYTES + int.from_bytes(head[:_LENGTH_BYTES], "big"))
        ):
            if is_request:
                api = apis_in_flight[connection, head[8:12]] = api_name(int.from_bytes(head[4:6], "big"))
            else:
                api = apis_in_flight.pop((connection, head[4:8]), "")
            yield Frame(api, list(_take(parts, size)))


def _take(parts: list[Sent], size: int) -> Iterator[Sent]:
    """Remove and yield the first `size` bytes."""
    while size:
        part = parts.pop(0)
        head, tail = part.data[:size], part.data[size:]
        size -= len(head)
        if tail:
            parts.insert(0, part._replace(data=tail))
        yield part._replace(data=head)


def write_capture(path: Path, traffic: Iterable[Sent]) -> None:
    """Write a capture with packets for this traffic, and an acknowledgement after each response."""
    ends: dict[int, tuple[capture._Side, capture._Side]] = {}
    with path.open("wb") as file:
        file.write(capture._FILE_HEAD.pack(0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))

        def write(packet: bytes, at: int) -> None:
            seconds, nanos = divmod(at, 1_000_000_000)
            file.write(capture._PACKET_HEAD.pack(seconds, nanos // 1000, len(packet), len(packet)) + packet)

        for connection, is_request, data, at in traffic:
            if connection not in ends:
                client = capture._Side(b"\x0a\0\0\x02", 10_000 + connection, 1_000)
                broker = capture._Side(b"\x0a\0\0\x01", 9092, 2_000)
                ends[connection] = client, broker
                write(capture._packet(client, broker, capture._SYN), at)
                write(capture._packet(broker, client, capture._SYN_ACK), at)
                write(capture._packet(client, broker, capture._ACK), at)
            sender, receiver = ends[connection] if is_request else ends[connection][::-1]
            for start in range(0, len(data), 32_000):
                write(capture._packet(sender, receiver, capture._PUSH_ACK, data[start : start + 32_000]), at)
            if not is_request:
                write(capture._packet(receiver, sender, capture._ACK), at)
