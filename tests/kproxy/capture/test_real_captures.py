"""Real captures: every byte of every stream, compared with a second way to put them together."""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from kproxy.capture import BytesCaptured, BytesLost, Packet, Reassembler, SegmentDiffers, open_capture
from kproxy.capture.links import Endpoint
from tests.kproxy.capture.packets import PCAPS

Streams = dict[tuple[Endpoint, Endpoint], bytes]


def streams_by_offset(path: Path) -> Streams:
    """Each payload put where its sequence number says; knows Ethernet, IPv4 and one connection per port alone."""
    file = gzip.decompress(path.read_bytes())
    first: dict[tuple[Endpoint, Endpoint], int] = {}
    segments: dict[tuple[Endpoint, Endpoint], list[tuple[int, bytes]]] = defaultdict(list)
    place = 24
    while place < len(file):
        captured = struct.unpack_from("<I", file, place + 8)[0]
        ip = file[place + 16 + 14 : place + 16 + captured]
        place += 16 + captured
        segment = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        source_port, destination_port, seq = struct.unpack_from("!HHI", segment)
        key = (".".join(map(str, ip[12:16])), source_port), (".".join(map(str, ip[16:20])), destination_port)
        payload = segment[(segment[12] >> 4) * 4 :]
        if segment[13] & 2:
            first[key] = seq + 1
        elif payload:  # the first of a connection that was under way when the capture began
            first.setdefault(key, seq)
            segments[key].append(((seq - first[key]) & 0xFFFF_FFFF, payload))
    streams: Streams = {}
    for key, parts in segments.items():
        stream = b""
        for offset, payload in sorted(parts):
            assert offset <= len(stream), "a real gap"
            stream += payload[len(stream) - offset :]
        streams[key] = stream
    return streams


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcap.gz")), ids=lambda path: path.name.split(".")[0])
def test_real_captures_come_out_whole(path: Path) -> None:
    reassembler = Reassembler()
    streams: dict[tuple[Endpoint, Endpoint], bytes] = defaultdict(bytes)
    with open_capture(path) as capture:
        events = [event for packet in capture for event in reassembler.receive(packet)]
        assert capture.truncated is None
    for event in [*events, *reassembler.close()]:
        assert not isinstance(event, BytesLost)
        if isinstance(event, BytesCaptured):
            a, b = event.flow.endpoints
            streams[(b, a) if event.direction else (a, b)] += event.data
    assert streams == streams_by_offset(path)
    assert not reassembler.skipped


def _differing(packets: Iterable[Packet]) -> int:
    reassembler = Reassembler()
    return sum(isinstance(event, SegmentDiffers) for packet in packets for event in reassembler.receive(packet))


def test_no_real_retransmission_differs_but_all_with_a_changed_byte_do() -> None:
    root, found = Path(__file__).parents[3], 0
    paths = [path for folder in ("captures", "tests/data") for path in (root / folder).rglob("*.pcap.gz")]
    for path in paths:
        with open_capture(path) as capture:
            packets = list(capture)
        assert _differing(packet for packet in packets for _ in range(2)) == 0, path
        changed = (packet._replace(data=packet.data[:-1] + bytes([packet.data[-1] ^ 1])) for packet in packets)
        found += _differing(each for pair in zip(packets, changed, strict=True) for each in pair)
    assert len(paths) > 100
    assert found > 5_000
