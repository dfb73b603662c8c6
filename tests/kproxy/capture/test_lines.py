"""The lines of a capture: as soon as their packets arrive, and in spite of a bug."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pytest

from dissectors.failures import Failure
from kproxy.capture import Packet, open_capture, tcp
from kproxy.capture.kafka_flows import Dissector
from kproxy.capture.lines import CaptureLines
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import FindingLine, Line, RequestLine, ResponseLine
from kproxy.trace.timestamps import timestamp
from tests.kproxy.capture.packets import PCAPS, pcap

SAMPLE = gzip.decompress((PCAPS / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())


def packets_of(data: bytes) -> list[Packet]:
    with open_capture(io.BytesIO(data)) as capture:
        return list(capture)


def lines_of(data: bytes) -> list[Line]:
    with open_capture(io.BytesIO(data)) as capture:
        return list(CaptureLines(capture, Inspector("c")))


class Arriving(io.BytesIO):
    """A stream that has one packet more at each read."""

    def __init__(self, packets: list[Packet]) -> None:
        super().__init__(pcap(packets))
        self.sizes = iter([16 + len(packet.data) for packet in packets])
        self.packets = 0

    def read1(self, size: int | None = -1, /) -> bytes:
        self.packets += 1
        return super().read1(next(self.sizes, 0))


def test_a_line_is_given_when_its_packet_has_arrived() -> None:
    packets = packets_of(SAMPLE)
    source = Arriving(packets)
    frames = 0
    with open_capture(source) as capture:
        for line in CaptureLines(capture, Inspector("c")):
            if isinstance(line, RequestLine | ResponseLine):
                frames += 1
                assert line.ts == timestamp(packets[source.packets - 1].at)
    assert frames > 20


@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_a_bug_affects_only_its_packet(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Failure], place: float
) -> None:
    sound = lines_of(SAMPLE)
    times = [packet.at for packet in packets_of(SAMPLE) if len(packet.data) != 66]  # others than bare acknowledgements
    broken = times[int(place * (len(times) - 1))]
    receive = tcp.Reassembler._receive_unusual
    usual = tcp.BytesCaptured

    def fail(at: int) -> None:
        if at == broken:
            raise TypeError("a bug")

    def unusual(self: tcp.Reassembler, packet: Packet) -> Any:
        fail(packet.at)
        return receive(self, packet)

    def captured(flow: Any, direction: int, at: int, data: bytes) -> Any:
        fail(at)
        return usual(flow, direction, at, data)

    monkeypatch.setattr(tcp.Reassembler, "_receive_unusual", unusual)
    monkeypatch.setattr(tcp, "BytesCaptured", captured)
    lines = lines_of(SAMPLE)
    assert len(internal_errors) == 1
    assert len(lines) > len(sound) // 2
    [found] = [line for line in lines if isinstance(line, FindingLine) and line.code == "K007"]
    assert found.ts == timestamp(broken)


def test_what_came_before_an_error_of_the_user_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS without the package for it: a block also has packets of other connections."""
    sound, process = lines_of(SAMPLE), Dissector.process
    count = 0

    def refused(self: Dissector, event: Any) -> list[Line]:
        nonlocal count
        count += 1
        if count == 60:
            raise UserError("TLS decryption needs the cryptography package")
        return process(self, event)

    monkeypatch.setattr(Dissector, "process", refused)
    lines: list[Line] = []
    with open_capture(io.BytesIO(SAMPLE)) as capture, pytest.raises(UserError):
        lines += iter(CaptureLines(capture, Inspector("c")))
    assert len(lines) > 20
    assert lines == sound[: len(lines)]
