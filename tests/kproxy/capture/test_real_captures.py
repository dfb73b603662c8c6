"""Real captures: every byte of every stream is compared with a second implementation of reassembly."""

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
    """Order payloads by sequence number; supports only Ethernet, IPv4 and one connection per port."""
    file = gzip.decompress(path.read_bytes())
    first_seqs: dict[tuple[Endpoint, Endpoint], int] = {}
    segments: dict[tuple[Endpoint, Endpoint], list[tuple[int, bytes]]] = defaultdict(list)
    position = 24
    while position < len(file):
        captured_length = struct.unpack_from("<I", file, position + 8)[0]
        ip = file[position + 16 + 14 : position + 16 + captured_length]
        position += 16 + captured_length
        segment = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        source_port, destination_port, seq = struct.unpack_from("!HHI", segment)
        key = (".".join(map(str, ip[12:16])), source_port), (".".join(map(str, ip[16:20])), destination_port)
        payload = segment[(segment[12] >> 4) * 4 :]
        if segment[13] & 2:
            first_seqs[key] = seq + 1
        elif payload:  # the connection may have been open when the capture started
            first_seqs.setdefault(key, seq)
            segments[key].append(((seq - first_seqs[key]) & 0xFFFF_FFFF, payload))
    streams: Streams = {}
    for key, stream_segments in segments.items():
        stream = b""
        for offset, payload in sorted(stream_segments):
            assert offset <= len(stream), "a real gap"
            stream += payload[len(stream) - offset :]
        streams[key] = stream
    return streams


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcap.gz")), ids=lambda path: path.name.split(".")[0])
def test_real_captures_are_reassembled_completely(path: Path) -> None:
    reassembler = Reassembler()
    streams: dict[tuple[Endpoint, Endpoint], bytes] = defaultdict(bytes)
    with open_capture(path) as capture:
        events = [event for packet in capture for event in reassembler.receive(packet)]
        assert capture.truncated is None
    for event in [*events, *reassembler.close()]:
        assert not isinstance(event, BytesLost)
        if isinstance(event, BytesCaptured):
            client, server = event.flow.endpoints
            streams[(server, client) if event.direction else (client, server)] += event.data
    assert streams == streams_by_offset(path)
    assert not reassembler.skipped


def _count_differing(packets: Iterable[Packet]) -> int:
    reassembler = Reassembler()
    return sum(isinstance(event, SegmentDiffers) for packet in packets for event in reassembler.receive(packet))


@pytest.mark.slow
def test_reports_only_retransmissions_with_a_changed_byte() -> None:
    root, differing_segments = Path(__file__).parents[3], 0
    paths = [path for folder in ("captures", "tests/data") for path in (root / folder).rglob("*.pcap.gz")]
    for path in paths:
        with open_capture(path) as capture:
            packets = list(capture)
        assert _count_differing(packet for packet in packets for _ in range(2)) == 0, path
        changed = (packet._replace(data=packet.data[:-1] + bytes([packet.data[-1] ^ 1])) for packet in packets)
        differing_segments += _count_differing(
            packet_copy for pair in zip(packets, changed, strict=True) for packet_copy in pair
        )
    assert len(paths) > 100
    assert differing_segments > 5_000
