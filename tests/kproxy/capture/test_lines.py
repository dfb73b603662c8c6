"""The lines of a capture are yielded as soon as their packets arrive, even after internal errors."""

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


class PacketPerRead(io.BytesIO):
    """A stream in which each read returns one more packet."""

    def __init__(self, packets: list[Packet]) -> None:
        super().__init__(pcap(packets))
        self.sizes = iter([16 + len(packet.data) for packet in packets])
        self.packets_read = 0

    def read1(self, size: int | None = -1, /) -> bytes:
        self.packets_read += 1
        return super().read1(next(self.sizes, 0))


def test_line_is_yielded_as_soon_as_its_packet_arrives() -> None:
    packets = packets_of(SAMPLE)
    source = PacketPerRead(packets)
    frame_count = 0
    with open_capture(source) as capture:
        for line in CaptureLines(capture, Inspector("c")):
            if isinstance(line, RequestLine | ResponseLine):
                frame_count += 1
                assert line.ts == timestamp(packets[source.packets_read - 1].at)
    assert frame_count > 20


@pytest.mark.parametrize("position", [0, 0.5, 1])
def test_internal_error_affects_only_its_packet(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Failure], position: float
) -> None:
    expected_lines = lines_of(SAMPLE)
    times = [packet.at for packet in packets_of(SAMPLE) if len(packet.data) != 66]  # skip bare acknowledgements
    failing_at = times[int(position * (len(times) - 1))]
    original_receive = tcp.Reassembler._receive_unusual
    original_class = tcp.BytesCaptured

    def fail_if_due(at: int) -> None:
        if at == failing_at:
            raise TypeError("a bug")

    def receive_or_fail(self: tcp.Reassembler, packet: Packet) -> Any:
        fail_if_due(packet.at)
        return original_receive(self, packet)

    def captured_or_fail(flow: Any, direction: int, at: int, data: bytes) -> Any:
        fail_if_due(at)
        return original_class(flow, direction, at, data)

    monkeypatch.setattr(tcp.Reassembler, "_receive_unusual", receive_or_fail)
    monkeypatch.setattr(tcp, "BytesCaptured", captured_or_fail)
    lines = lines_of(SAMPLE)
    assert len(internal_errors) == 1
    assert len(lines) > len(expected_lines) // 2
    [finding] = [line for line in lines if isinstance(line, FindingLine) and line.code == "K007"]
    assert finding.ts == timestamp(failing_at)


def test_lines_before_a_user_error_are_yielded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing TLS package is one such error; the same block also contains packets of other connections."""
    expected_lines, process = lines_of(SAMPLE), Dissector.process
    count = 0

    def process_or_fail(self: Dissector, event: Any) -> list[Line]:
        nonlocal count
        count += 1
        if count == 60:
            raise UserError("TLS decryption needs the cryptography package")
        return process(self, event)

    monkeypatch.setattr(Dissector, "process", process_or_fail)
    lines: list[Line] = []
    with open_capture(io.BytesIO(SAMPLE)) as capture, pytest.raises(UserError):
        lines += iter(CaptureLines(capture, Inspector("c")))
    assert len(lines) > 20
    assert lines == expected_lines[: len(lines)]
