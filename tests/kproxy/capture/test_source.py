"""Capture files and streams: formats, compression, damage, and errors about files that are not captures."""

from __future__ import annotations

import gc
import gzip
import io
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture import Capture, CaptureError, Packet, open_capture
from tests.kproxy.capture.packets import AT, PCAPS, block, enhanced, interface, packet, pcap, section

TWO_PACKETS = [packet(b"first packet"), packet(b"second", at=AT + 5_000, wire_length=1500)]
SAMPLE = gzip.decompress((PCAPS / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())


def zero_records(count: int) -> bytes:
    """Return `count` pcap records of zeros: each is an empty packet at time 0."""
    return bytes(16 * count)


def read_capture(data: bytes) -> tuple[list[Packet], str | None]:
    with open_capture(io.BytesIO(data)) as capture:
        return list(capture), capture.truncated


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_reads_pcap_in_any_byte_order_and_time_resolution(endian: str, nano: bool) -> None:
    assert read_capture(pcap(TWO_PACKETS, endian=endian, nano=nano)) == (TWO_PACKETS, None)


def test_keeps_nanoseconds_if_the_file_has_them() -> None:
    exact = [packet(b"x", at=AT + 789)]
    assert read_capture(pcap(exact, nano=True)) == (exact, None)


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "ticks_per_second"), [(None, 10**6), (6, 10**6), (9, 10**9), (3, 10**3), (0x80 | 10, 1024)]
)
def test_reads_pcapng_at_any_resolution(endian: str, resolution: int | None, ticks_per_second: int) -> None:
    ticks = 1_750_000_000 * ticks_per_second + 3
    data = section(endian) + interface(resolution=resolution, endian=endian) + enhanced(b"abc", ticks, endian=endian)
    assert read_capture(data) == ([packet(b"abc", at=ticks * 10**9 // ticks_per_second)], None)


def test_reads_each_pcapng_packet_with_the_link_type_of_its_interface() -> None:
    data = section() + interface(1) + interface(113) + enhanced(b"a", 1, interface=1) + enhanced(b"b", 2, interface=0)
    assert [link_type for _, link_type, _, _ in read_capture(data)[0]] == [113, 1]


def test_each_pcapng_section_counts_its_own_interfaces() -> None:
    first = section() + interface(1) + enhanced(b"a", 1)
    second = section(">") + interface(113, endian=">") + enhanced(b"b", 2, endian=">")
    assert [link_type for _, link_type, _, _ in read_capture(first + second)[0]] == [1, 113]


def test_reads_simple_and_obsolete_pcapng_packets() -> None:
    obsolete = block(2, struct.pack("<HH4I", 0, 0, 0, 7_000_000, 3, 3) + b"old")
    simple = block(3, struct.pack("<I", 9) + b"simp")
    data = section() + interface(snaplen=4) + obsolete + simple
    assert read_capture(data)[0] == [packet(b"old", at=7_000_000_000), packet(b"simp", at=7_000_000_000, wire_length=9)]


def test_skips_other_kinds_of_pcapng_blocks() -> None:
    data = section() + interface() + block(5, bytes(12)) + block(0x0BAD, b"custom") + enhanced(b"abc", 0)
    assert read_capture(data) == ([packet(b"abc", at=0)], None)


def test_reads_the_tls_keys_in_a_pcapng() -> None:
    log = b"CLIENT_RANDOM aa bb"
    data = section() + block(10, struct.pack("<II", 0x544C534B, len(log)) + log) + interface()
    with open_capture(io.BytesIO(data)) as capture:
        assert list(capture) == []
        assert capture.tls_keys == "CLIENT_RANDOM aa bb\n"


def test_reads_packets_longer_than_65535_bytes() -> None:
    long = packet(bytes(70_000))
    assert read_capture(pcap([long])) == ([long], None)


def test_ignores_the_length_of_the_frame_check_sequence() -> None:
    assert read_capture(pcap(TWO_PACKETS, link_type=1 | 0x3400_0000))[0] == TWO_PACKETS


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compression_is_detected_by_its_magic_bytes(tmp_path: Path, compress: type[bytes]) -> None:
    path = tmp_path / "capture.bin"
    path.write_bytes(compress(pcap(TWO_PACKETS[:1])) + compress(pcap(TWO_PACKETS)[24 + 16 + 12 :]))  # two members
    with open_capture(path) as capture:
        assert list(capture) == TWO_PACKETS
        assert capture.bytes_read == path.stat().st_size


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_reads_a_pipe_byte_by_byte(compress: type[bytes]) -> None:
    data = compress(pcap(TWO_PACKETS))
    read_end, write_end = os.pipe()

    def write() -> None:
        with open(write_end, "wb", buffering=0) as pipe:  # noqa: PTH123
            for byte in data:
                pipe.write(bytes((byte,)))

    writer = threading.Thread(target=write)
    writer.start()
    with open(read_end, "rb") as pipe, open_capture(pipe) as capture:  # noqa: PTH123
        assert list(capture) == TWO_PACKETS
    writer.join()


def test_yields_a_packet_before_the_next_one_is_written() -> None:
    read_end, write_end = os.pipe()
    with open(write_end, "wb", buffering=0) as pipe, open(read_end, "rb") as source:  # noqa: PTH123
        pipe.write(pcap(TWO_PACKETS[:1]))
        with open_capture(source) as capture:
            assert next(iter(capture)) == TWO_PACKETS[0]


PCAPNG_TWO = section() + interface() + enhanced(b"abc", 0) + enhanced(b"defghi", 1)


@pytest.mark.parametrize("data", [pcap(TWO_PACKETS), PCAPNG_TWO], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("end", [1, 5, 6, 7, 11, 22], ids="all but {}".format)
def test_yields_a_packet_before_the_next_one_is_complete(data: bytes, end: int) -> None:
    read_end, write_end = os.pipe()
    with open(write_end, "wb", buffering=0) as pipe, open(read_end, "rb") as source:  # noqa: PTH123
        pipe.write(data[:-end])
        with open_capture(source) as capture:
            packets = iter(capture)
            first = next(packets)
            pipe.write(data[-end:])
            pipe.close()
            assert [first, *packets] == read_capture(data)[0]


class ChunkedStream(io.BytesIO):
    """A stream that returns few bytes at a time, like a pipe."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.max_size = size

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(min(size, self.max_size) if size is not None and size >= 0 else self.max_size)


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 28, 61, 4096])
def test_size_of_reads_does_not_affect_the_packets(size: int) -> None:
    damaged = (
        pcap([*TWO_PACKETS, packet(bytes(70_000)), packet(b""), *TWO_PACKETS])
        + zero_records(3)
        + pcap(TWO_PACKETS)[24:]
        + b"rest"
    )
    for data in (
        SAMPLE[:20_000],
        damaged,
        PCAPNG_TWO + section(">") + interface(endian=">") + PCAPNG_TWO,
        PCAPNG_TWO[:-1],
    ):
        with Capture(ChunkedStream(data, size), "chunks", owned=False) as capture:
            assert (list(capture), capture.truncated) == read_capture(data)


def test_large_packets_are_not_copied_for_each_read() -> None:
    large_packets = [packet(bytes([index]) * (1 << 20)) for index in range(3)]
    with Capture(ChunkedStream(pcap(large_packets), 100_000), "chunks", owned=False) as capture:
        blocks = list(capture.blocks())
    assert sum(len(block.data) for block in blocks) < 2 * 3 * (1 << 20)
    assert [len(block.packets) for block in blocks if block.packets] == [1, 1, 1]


def test_packets_read_together_are_in_one_block() -> None:
    pcapng = section() + interface() + interface(113) + b"".join(enhanced(b"abc", index) for index in range(50))
    pcapng += b"".join(enhanced(b"abc", index, interface=1) for index in range(20))
    for data, sizes in ((pcap(TWO_PACKETS * 50), [100]), (pcapng, [50, 20])):
        with open_capture(io.BytesIO(data)) as capture:
            assert [len(block.packets) for block in capture.blocks() if block.packets] == sizes


def test_only_files_opened_by_path_are_closed(tmp_path: Path) -> None:
    stream = io.BytesIO(pcap(TWO_PACKETS))
    with open_capture(stream):
        pass
    assert not stream.closed
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(TWO_PACKETS))
    with open_capture(path) as capture:
        packets = iter(capture)
        next(packets)
    assert capture._source is not None
    assert capture._source.closed


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the stream is empty: capture again"),
        (b"GET / HTTP/1.1\r\n", r"is not a capture file \(it begins with b'GET / HT'\): use a pcap or pcapng file"),
        (pcap([])[:20], "is not a capture file"),
        (section()[:16], "is not a capture file"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(gzip.compress(pcap(TWO_PACKETS), mtime=0), mtime=0), "is not a capture file"),
        (gzip.compress(pcap(TWO_PACKETS), mtime=0)[:12], "the gzip'd data is truncated"),
        (b"\x1f\x8bnonsense", "the gzip'd data is damaged"),
        (zstandard.compress(b""), "is empty"),
        (b"\x28\xb5\x2f\xfdnonsense", "the zstd data is damaged"),
        (
            pcap(TWO_PACKETS, link_type=189),
            "has link type 189, which is not supported: capture as one of Ethernet, Linux",
        ),
        (section() + interface(189) + enhanced(b"usb", 0), "has link type 189"),
    ],
)
def test_reports_an_invalid_file_in_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(CaptureError, match=sentence) as caught:
        read_capture(data)
    assert "\n" not in str(caught.value)


def test_reports_the_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"missing\.pcap cannot be opened: No such file"):
        open_capture(tmp_path / "missing.pcap")
    with pytest.raises(CaptureError, match="cannot be opened: Is a directory"):
        open_capture(tmp_path)


@pytest.mark.slow
def test_closes_a_file_that_is_not_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no packets here")
    with pytest.raises(CaptureError, match=r"notes\.txt is not a capture file"):
        open_capture(path)
    gc.collect()  # an open file would cause a warning, and warnings are errors


def test_accepts_an_unsupported_interface_next_to_a_supported_one() -> None:
    data = section() + interface(189) + interface(1) + enhanced(b"usb", 0) + enhanced(b"abc", 0, interface=1)
    assert [link_type for _, link_type, _, _ in read_capture(data)[0]] == [189, 1]


@pytest.mark.parametrize("claimed_length", [17 << 20, 0xFFFF_FFFF])
def test_stops_at_a_packet_of_impossible_length(claimed_length: int) -> None:
    data = pcap(TWO_PACKETS) + struct.pack("<4I", 1, 1, claimed_length, claimed_length) + b"rest"
    packets, truncated = read_capture(data)
    assert packets == TWO_PACKETS
    assert truncated == f"packet 3 has an impossible length of {claimed_length} bytes: the rest of the file is not read"


@pytest.mark.parametrize(
    ("tail", "truncated"),
    [
        (
            struct.pack("<II", 6, 0xFFFF_FFF0),
            "block 4 has an impossible length of 4294967280 bytes: the rest of the file is not read",
        ),
        (struct.pack("<II", 6, 8), "block 4 has an impossible length of 8 bytes: the rest of the file is not read"),
        (struct.pack("<I", 6), "the file ends inside the header of block 4"),
        (enhanced(b"abc", 0)[:-4] + b"nope", "block 4 has two different lengths: the rest of the file is not read"),
        (section()[:20], "the section header in block 4 is damaged"),
        (enhanced(b"abc", 0, interface=7), "block 4 is damaged and was skipped"),
        (block(6, b"short"), "block 4 is damaged and was skipped"),
        (block(1, b""), "block 4 is damaged and was skipped"),
    ],
)
def test_reads_a_damaged_pcapng_up_to_the_damage(tail: bytes, truncated: str) -> None:
    assert read_capture(section() + interface() + enhanced(b"abc", 0) + tail) == ([packet(b"abc", at=0)], truncated)


def test_truncated_capture_yields_the_packets_before_the_cut() -> None:
    all_packets, truncated = read_capture(SAMPLE)
    assert truncated is None
    packet_ends, end = [], 24
    for captured_packet in all_packets:
        end += 16 + len(captured_packet.data)
        packet_ends.append(end)
    assert end == len(SAMPLE)
    for cut in range(24, len(SAMPLE), 97):
        packets, truncated = read_capture(SAMPLE[:cut])
        assert packets == all_packets[: sum(end <= cut for end in packet_ends)]
        assert (truncated is None) == (cut in (24, *packet_ends))


def test_reports_where_a_pcap_is_truncated() -> None:
    data = pcap(TWO_PACKETS)
    second_offset = 24 + 16 + len(TWO_PACKETS[0].data)
    for cut in range(24, len(data) + 1):
        number, present_bytes = (1, cut - 24) if cut < second_offset else (2, cut - second_offset)
        if present_bytes in (0, 16 + len(TWO_PACKETS[number - 1].data)):
            expected = None
        elif present_bytes < 16:
            expected = f"the file ends inside the header of packet {number}"
        else:
            captured = len(TWO_PACKETS[number - 1].data)
            expected = f"the file ends inside packet {number}, after {present_bytes - 16} of {captured} bytes"
        assert read_capture(data[:cut]) == (TWO_PACKETS[: (cut >= second_offset) + (cut == len(data))], expected)


def test_reports_where_a_pcapng_is_truncated() -> None:
    last_offset = len(PCAPNG_TWO) - len(enhanced(b"defghi", 1))
    all_packets = read_capture(PCAPNG_TWO)[0]
    for cut in range(last_offset, len(PCAPNG_TWO)):
        location = "the header of block 4" if last_offset < cut < last_offset + 8 else "block 4"
        assert read_capture(PCAPNG_TWO[:cut]) == (
            all_packets[:1],
            f"the file ends inside {location}" if cut > last_offset else None,
        )


@pytest.mark.parametrize(("present", "claimed_length"), [(4, 4), (5, 8), (5, 9), (5, 100), (5, 0xFFFF_FFFF)])
def test_pcapng_packet_ends_with_its_block(present: int, claimed_length: int) -> None:
    body = struct.pack("<5I", 0, 0, 0, claimed_length, 200) + b"abcde"[:present]
    data = section() + interface() + block(6, body) + enhanced(b"next", 1)
    content = (b"abcde"[:present] + bytes(-present % 4))[:claimed_length]
    assert read_capture(data) == ([packet(content, at=0, wire_length=200), packet(b"next", at=1000)], None)


def zstd_blocks(data: bytes) -> bytes:
    """Return one zstd frame with many blocks, each of which can be read as soon as it arrives."""
    compressor = zstandard.ZstdCompressor().compressobj()
    blocks = [
        compressor.compress(data[start : start + 1000]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for start in range(0, len(data), 1000)
    ]
    return b"".join(blocks) + compressor.flush()


@pytest.mark.parametrize(
    ("compressed", "message_pattern"),
    [
        (gzip.compress(SAMPLE, mtime=0), "the gzip'd data is truncated"),
        (zstd_blocks(SAMPLE), "the file ends in|None"),
    ],
    ids=["gzip", "zstd"],
)
def test_truncated_compressed_capture_yields_leading_packets_or_raises(compressed: bytes, message_pattern: str) -> None:
    all_packets, _ = read_capture(SAMPLE)
    counts = []
    for cut in range(1, len(compressed), 97):
        try:
            packets, truncated = read_capture(compressed[:cut])
        except CaptureError:
            continue
        assert packets == all_packets[: len(packets)]
        assert re.match(message_pattern, str(truncated))
        counts.append(len(packets))
    assert counts == sorted(counts)
    assert counts[-1] > 100


@given(st.integers(0, 200), st.binary(max_size=8))
def test_damaged_bytes_raise_only_capture_errors(offset: int, damage: bytes) -> None:
    pcapng = section() + interface(resolution=9) + enhanced(b"abc", 1) + section(">") + interface(endian=">")
    for data in (pcapng, pcap(TWO_PACKETS)):
        try:
            read_capture(data[:offset] + damage + data[offset + len(damage) :])
        except CaptureError as error:
            assert str(error)  # noqa: PT017


def test_importing_the_package_does_not_import_scapy() -> None:
    script = "import sys, kproxy.capture; sys.exit('scapy' in sys.modules or 'cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_reading_stops_when_a_file_continues_with_only_zeros(compress: Callable[[bytes], bytes]) -> None:
    chunks = 0

    def advance() -> None:
        nonlocal chunks
        chunks += 1

    source = io.BytesIO(compress(pcap(TWO_PACKETS) + zero_records(1 << 20)))
    with Capture(source, "zeros", owned=False, advance=advance) as capture:
        assert list(capture) == TWO_PACKETS
        assert capture.truncated == "from packet 3 on, the file holds only zeros: the rest of it is not read"
    assert 0 < chunks < 100


def test_packets_between_zeros_reset_the_zero_count() -> None:
    data = (
        pcap(TWO_PACKETS)
        + zero_records(65_535)
        + pcap(TWO_PACKETS[:1])[24:]
        + zero_records(65_535)
        + pcap(TWO_PACKETS[:1])[24:]
    )
    packets, truncated = read_capture(data)
    assert len(packets) == 4
    assert truncated == "it has zeros in the place of 131070 packets"
    assert read_capture(data + zero_records(65_536))[1] == (
        "from packet 131075 on, the file holds only zeros: the rest of it is not read"
    )


@pytest.mark.parametrize("header", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)])
def test_header_with_a_time_or_a_length_is_an_empty_packet(header: tuple[int, ...]) -> None:
    packets, truncated = read_capture(pcap([]) + struct.pack("<4I", *header))
    assert packets == [(header[0] * 10**9 + header[1] * 1000, 1, b"", header[3])]
    assert truncated is None
    assert read_capture(pcap([]) + struct.pack("<4I", 0, 0, 3, 0) + b"abc") == ([(0, 1, b"abc", 0)], None)


def test_reads_packets_after_some_zeros() -> None:
    data = pcap(TWO_PACKETS) + zero_records(5) + pcap(TWO_PACKETS)[24:]
    assert read_capture(data) == (TWO_PACKETS + TWO_PACKETS, "it has zeros in the place of 5 packets")
    assert read_capture(gzip.compress(data)) == (TWO_PACKETS + TWO_PACKETS, "it has zeros in the place of 5 packets")


def test_reports_progress_while_no_packet_is_found() -> None:
    chunks = 0

    def advance() -> None:
        nonlocal chunks
        chunks += 1

    data = section() + block(99, b"") * 100_000
    with Capture(io.BytesIO(data), "blocks", owned=False, advance=advance) as capture:
        assert list(capture) == []
    assert chunks >= len(data) // 65_536
