"""The ways a frame can take through kproxy: `explain`, the inspector behind a relay, and `dissect` of a capture."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from random import Random
from typing import cast

from dissectors.connections.events import Direction
from kproxy.capture import Capture, Packet
from kproxy.capture.lines import CaptureLines
from kproxy.capture.packet import PacketBlock
from kproxy.inspection.event_lines import finding_entry
from kproxy.inspection.explain import explain
from kproxy.inspection.inspector import Inspector
from kproxy.outputs.explained_frame import write_explanation
from kproxy.trace.encoding import encode_json, encode_line
from kproxy.trace.lines import Detail, Line
from kproxy.verdict.ranking import best_first
from tests.fuzz.frames import Source
from tests.fuzz.watch import Watch
from tests.kproxy.capture.packets import ACK, AT, SYN, SYN_ACK, ethernet, ipv4, packet, tcp

_SECOND = 1_000_000_000
_CONNECTIONS = 8  # open at a time
_EXCHANGES = 30  # per connection
_RARE = 0.002


def run_explain(seed: str, count: int, watch: Watch) -> None:
    """Explain each frame alone, as text and as JSON."""
    random, source = Random(seed), Source(seed)
    while watch.frames < count:
        exchange = source.exchange(watch.frames + 1)
        is_request = random.random() < 0.4
        frame = exchange.request if is_request else exchange.response
        with watch.frame(frame):
            if is_request:
                explanation = explain(frame)
            elif random.random() < 0.5:
                explanation = explain(frame, request=exchange.request)
            else:
                explanation = explain(frame, (exchange.key, exchange.version))
            entries = best_first(finding_entry(finding, explanation.frame) for finding in explanation.findings)
            write_explanation(explanation, entries, io.StringIO())
            encode_json(explanation.body)


def run_inspector(seed: str, count: int, watch: Watch) -> None:
    """Pass connections through one inspector; their bytes arrive in pieces and are sometimes lost."""
    random, source = Random(seed), Source(seed)
    inspector = Inspector("fuzz", random.choice(tuple(Detail)), excerpts=random.random() < 0.5)
    exchange_counts = [_EXCHANGES] * _CONNECTIONS
    now, is_open = AT, [False] * _CONNECTIONS
    while watch.frames < count:
        now += random.choice((1, 1_000_000, _SECOND, 40 * _SECOND))
        number = random.randrange(_CONNECTIONS)
        if exchange_counts[number] >= _EXCHANGES or random.random() < _RARE:
            if is_open[number]:
                _close(inspector, number, random, now)
            client = f"10.0.0.9:{50_000 + number}"
            inspector.open(number, client, "10.0.0.1:9092", at=now, midstream=random.random() < 0.1)
            exchange_counts[number], is_open[number] = 0, True
        exchange_counts[number] += 1
        exchange = source.exchange(watch.frames + 1)
        sides = [(Direction.REQUEST, exchange.request), (Direction.RESPONSE, exchange.response)]
        for direction, frame in sides[: 1 if random.random() < 0.02 else 2]:
            with watch.frame(frame):
                for line in _inspect_frame(inspector, number, direction, frame, random, now):
                    encode_line(line)
        if random.random() < _RARE:
            for connection in inspector.open_connections():
                list(connection.waiting)
            list(inspector.late_responses(at=now))


def _inspect_frame(
    inspector: Inspector, number: int, direction: Direction, frame: bytes, random: Random, at: int
) -> Iterator[Line]:
    chance = random.random()
    if chance < _RARE:
        yield from inspector.lose(number, direction, random.randint(1, 2 * len(frame)), at=at, reason="fuzz")
        return
    if chance < 2 * _RARE:
        size = max(len(frame) - 4, 4)
        yield from inspector.skip(number, direction, frame[4:64], size, at=at, reason="fuzz")
        return
    if chance < 3 * _RARE:  # a wrong length prefix
        frame = random.choice((b"", random.randbytes(3), b"\x00")) + random.randbytes(4) + frame[4:]
    for piece in _split(frame, random):
        yield from inspector.receive_data(number, direction, piece, at=at)


def _split(data: bytes, random: Random) -> Iterator[bytes]:
    while data:
        size = len(data) if random.random() < 0.8 else random.randint(1, len(data))
        yield data[:size]
        data = data[size:]


def _close(inspector: Inspector, number: int, random: Random, at: int) -> None:
    for line in inspector.close(number, at=at, by=random.choice(("client", "server")), how="reset"):
        encode_line(line)


class _Packets:
    """Exchanges as TCP segments, some of which are lost, repeated, reordered or overlapping."""

    tls_keys = ""

    def __init__(self, seed: str, count: int, watch: Watch) -> None:
        self._random, self._source, self._count, self._watch = Random(seed), Source(seed), count, watch

    def blocks(self) -> Iterator[PacketBlock]:
        for at, link_type, data, wire_length in self._packets():
            yield PacketBlock(link_type, data, [(at, 0, len(data), wire_length)])

    def _packets(self) -> Iterator[Packet]:
        random, now, port = self._random, AT, 20_000
        while self._watch.frames < self._count:
            port = 20_000 + (port + 1) % 40_000
            sequences = [random.getrandbits(32), random.getrandbits(32)]
            for side, flags in enumerate((SYN, SYN_ACK)):
                yield _segment(port, side, sequences, b"", flags, now)
                sequences[side] += 1
            for _ in range(random.randint(1, _EXCHANGES)):
                now += random.choice((1_000_000, _SECOND, 40 * _SECOND))
                exchange = self._source.exchange(self._watch.frames + 1)
                for side, frame in enumerate((exchange.request, exchange.response)):
                    with self._watch.frame(frame):
                        yield from self._segments_of(port, side, sequences, frame, now)

    def _segments_of(self, port: int, side: int, sequences: list[int], frame: bytes, at: int) -> Iterator[Packet]:
        random = self._random
        size = random.choice((1460, 9000, 60_000, random.randint(1, 60_000)))
        segments = []
        for start in range(0, len(frame), max(size, len(frame) // 40 + 1)):
            piece = frame[start : start + max(size, len(frame) // 40 + 1)]
            segments.append(_segment(port, side, sequences, piece, ACK, at))
            if random.random() < _RARE:  # overlaps the next segment with different bytes
                segments.append(_segment(port, side, sequences, piece[::-1] + b"x", ACK, at))
            sequences[side] += len(piece)
        if random.random() < _RARE:
            random.shuffle(segments)
        for segment in segments:
            for _ in range(random.choice((0, 2)) if random.random() < _RARE else 1):
                yield segment


def _segment(port: int, side: int, sequences: list[int], data: bytes, flags: int, at: int) -> Packet:
    ports, hosts = [(port, 9092), (9092, port)][side], [b"\x0a\0\0\2", b"\x0a\0\0\1"]
    mask = 0xFFFF_FFFF
    segment = tcp(*ports, sequences[side] & mask, data, ack=sequences[1 - side] & mask, flags=flags)
    return packet(ethernet(ipv4(segment, source=hosts[side], destination=hosts[1 - side])), at=at)


def run_dissect(seed: str, count: int, watch: Watch) -> None:
    """Dissect a capture of connections, one after the other."""
    packets = _Packets(seed, count, watch)
    lines = CaptureLines(cast("Capture", packets), Inspector("fuzz", Random(seed).choice(tuple(Detail))))
    for line in lines:
        encode_line(line)


#: Each way by name, with the number of frames in a chunk. The first few thousand frames take most of its time: later
#: deviations of the same message are already known, as in a proxy that has run for a long time.
WAYS: dict[str, tuple[Callable[[str, int, Watch], None], int]] = {
    "explain": (run_explain, 4_000),
    "inspector": (run_inspector, 150_000),
    "dissect": (run_dissect, 150_000),
}
