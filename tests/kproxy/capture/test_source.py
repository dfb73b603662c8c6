"""Capture files and streams: formats, compression, damage, and what is said of files that are none."""

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

TWO = [packet(b"first packet"), packet(b"second", at=AT + 5_000, wire_length=1500)]
SAMPLE = gzip.decompress((PCAPS / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())


def zeros(count: int) -> bytes:
    """Records of empty packets at time 0."""
    return bytes(16 * count)


def read(data: bytes) -> tuple[list[Packet], str | None]:
    with open_capture(io.BytesIO(data)) as capture:
        return list(capture), capture.truncated


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_reads_pcap_in_either_byte_order_and_clock(endian: str, nano: bool) -> None:
    assert read(pcap(TWO, endian=endian, nano=nano)) == (TWO, None)


def test_keeps_nanoseconds_where_the_file_has_them() -> None:
    exact = [packet(b"x", at=AT + 789)]
    assert read(pcap(exact, nano=True)) == (exact, None)


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "ticks_a_second"), [(None, 10**6), (6, 10**6), (9, 10**9), (3, 10**3), (0x80 | 10, 1024)]
)
def test_reads_pcapng_at_any_resolution(endian: str, resolution: int | None, ticks_a_second: int) -> None:
    ticks = 1_750_000_000 * ticks_a_second + 3
    data = section(endian) + interface(resolution=resolution, endian=endian) + enhanced(b"abc", ticks, endian=endian)
    assert read(data) == ([packet(b"abc", at=ticks * 10**9 // ticks_a_second)], None)


def test_reads_each_pcapng_packet_with_the_link_type_of_its_interface() -> None:
    data = section() + interface(1) + interface(113) + enhanced(b"a", 1, interface=1) + enhanced(b"b", 2, interface=0)
    assert [link_type for _, link_type, _, _ in read(data)[0]] == [113, 1]


def test_a_pcapng_section_counts_its_interfaces_anew() -> None:
    first = section() + interface(1) + enhanced(b"a", 1)
    second = section(">") + interface(113, endian=">") + enhanced(b"b", 2, endian=">")
    assert [link_type for _, link_type, _, _ in read(first + second)[0]] == [1, 113]


def test_reads_simple_and_obsolete_pcapng_packets() -> None:
    obsolete = block(2, struct.pack("<HH4I", 0, 0, 0, 7_000_000, 3, 3) + b"old")
    simple = block(3, struct.pack("<I", 9) + b"simp")
    data = section() + interface(snaplen=4) + obsolete + simple
    assert read(data)[0] == [packet(b"old", at=7_000_000_000), packet(b"simp", at=7_000_000_000, wire_length=9)]


def test_passes_over_pcapng_blocks_of_other_kinds() -> None:
    data = section() + interface() + block(5, bytes(12)) + block(0x0BAD, b"custom") + enhanced(b"abc", 0)
    assert read(data) == ([packet(b"abc", at=0)], None)


def test_gives_the_tls_keys_that_a_pcapng_carries() -> None:
    log = b"CLIENT_RANDOM aa bb"
    data = section() + block(10, struct.pack("<II", 0x544C534B, len(log)) + log) + interface()
    with open_capture(io.BytesIO(data)) as capture:
        assert list(capture) == []
        assert capture.tls_keys == "CLIENT_RANDOM aa bb\n"


def test_reads_packets_longer_than_65535_bytes_whole() -> None:
    long = packet(bytes(70_000))
    assert read(pcap([long])) == ([long], None)


def test_ignores_how_long_the_frame_check_sequence_is() -> None:
    assert read(pcap(TWO, link_type=1 | 0x3400_0000))[0] == TWO


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compression_is_seen_by_its_magic(tmp_path: Path, compress: type[bytes]) -> None:
    path = tmp_path / "capture.bin"
    path.write_bytes(compress(pcap(TWO[:1])) + compress(pcap(TWO)[24 + 16 + 12 :]))  # two members
    with open_capture(path) as capture:
        assert list(capture) == TWO
        assert capture.bytes_read == path.stat().st_size


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_reads_a_pipe_that_gives_a_byte_at_a_time(compress: type[bytes]) -> None:
    data = compress(pcap(TWO))
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123
            for byte in data:
                pipe.write(bytes((byte,)))

    writer = threading.Thread(target=write)
    writer.start()
    with open(reading, "rb") as pipe, open_capture(pipe) as capture:  # noqa: PTH123
        assert list(capture) == TWO
    writer.join()


def test_gives_a_packet_before_the_next_one_is_written() -> None:
    reading, writing = os.pipe()
    with open(writing, "wb", buffering=0) as pipe, open(reading, "rb") as source:  # noqa: PTH123
        pipe.write(pcap(TWO[:1]))
        with open_capture(source) as capture:
            assert next(iter(capture)) == TWO[0]


PCAPNG_TWO = section() + interface() + enhanced(b"abc", 0) + enhanced(b"defghi", 1)


@pytest.mark.parametrize("data", [pcap(TWO), PCAPNG_TWO], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("end", [1, 5, 6, 7, 11, 22], ids="all but {}".format)
def test_gives_a_packet_before_the_next_one_is_complete(data: bytes, end: int) -> None:
    reading, writing = os.pipe()
    with open(writing, "wb", buffering=0) as pipe, open(reading, "rb") as source:  # noqa: PTH123
        pipe.write(data[:-end])
        with open_capture(source) as capture:
            packets = iter(capture)
            first = next(packets)
            pipe.write(data[-end:])
            pipe.close()
            assert [first, *packets] == read(data)[0]


class Chunks(io.BytesIO):
    """Returns few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.most = size

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(min(size, self.most) if size is not None and size >= 0 else self.most)


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 28, 61, 4096])
def test_packets_that_straddle_reads_are_the_same(size: int) -> None:
    damaged = pcap([*TWO, packet(bytes(70_000)), packet(b""), *TWO]) + zeros(3) + pcap(TWO)[24:] + b"rest"
    for data in (
        SAMPLE[:20_000],
        damaged,
        PCAPNG_TWO + section(">") + interface(endian=">") + PCAPNG_TWO,
        PCAPNG_TWO[:-1],
    ):
        with Capture(Chunks(data, size), "chunks", owned=False) as capture:
            assert (list(capture), capture.truncated) == read(data)


def test_packets_larger_than_a_read_are_not_copied_for_each() -> None:
    long = [packet(bytes([index]) * (1 << 20)) for index in range(3)]
    with Capture(Chunks(pcap(long), 100_000), "chunks", owned=False) as capture:
        blocks = list(capture.blocks())
    assert sum(len(block.data) for block in blocks) < 2 * 3 * (1 << 20)
    assert [len(block.packets) for block in blocks if block.packets] == [1, 1, 1]


def test_packets_that_were_read_together_come_in_one_block() -> None:
    pcapng = section() + interface() + interface(113) + b"".join(enhanced(b"abc", index) for index in range(50))
    pcapng += b"".join(enhanced(b"abc", index, interface=1) for index in range(20))
    for data, sizes in ((pcap(TWO * 50), [100]), (pcapng, [50, 20])):
        with open_capture(io.BytesIO(data)) as capture:
            assert [len(block.packets) for block in capture.blocks() if block.packets] == sizes


def test_closes_the_file_that_it_opened_and_no_other(tmp_path: Path) -> None:
    stream = io.BytesIO(pcap(TWO))
    with open_capture(stream):
        pass
    assert not stream.closed
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(TWO))
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
        (gzip.compress(gzip.compress(pcap(TWO), mtime=0), mtime=0), "is not a capture file"),
        (gzip.compress(pcap(TWO), mtime=0)[:12], "the gzip'd data is truncated"),
        (b"\x1f\x8bnonsense", "the gzip'd data is damaged"),
        (zstandard.compress(b""), "is empty"),
        (b"\x28\xb5\x2f\xfdnonsense", "the zstd data is damaged"),
        (pcap(TWO, link_type=189), "has link type 189, which is not supported: capture as one of Ethernet, Linux"),
        (section() + interface(189) + enhanced(b"usb", 0), "has link type 189"),
    ],
)
def test_says_in_one_sentence_what_is_wrong(data: bytes, sentence: str) -> None:
    with pytest.raises(CaptureError, match=sentence) as caught:
        read(data)
    assert "\n" not in str(caught.value)


def test_says_which_file_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"missing\.pcap cannot be opened: No such file"):
        open_capture(tmp_path / "missing.pcap")
    with pytest.raises(CaptureError, match="cannot be opened: Is a directory"):
        open_capture(tmp_path)


def test_leaves_no_file_open_that_is_no_capture(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no packets here")
    with pytest.raises(CaptureError, match=r"notes\.txt is not a capture file"):
        open_capture(path)
    gc.collect()  # an open file would warn, and a warning is an error


def test_an_unsupported_interface_beside_a_supported_one_is_no_error() -> None:
    data = section() + interface(189) + interface(1) + enhanced(b"usb", 0) + enhanced(b"abc", 0, interface=1)
    assert [link_type for _, link_type, _, _ in read(data)[0]] == [189, 1]


@pytest.mark.parametrize("claim", [17 << 20, 0xFFFF_FFFF])
def test_a_packet_that_claims_too_much_ends_the_file(claim: int) -> None:
    data = pcap(TWO) + struct.pack("<4I", 1, 1, claim, claim) + b"rest"
    packets, truncated = read(data)
    assert packets == TWO
    assert truncated == f"packet 3 has an impossible length of {claim} bytes: the rest of the file is not read"


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
def test_damage_in_a_pcapng_leaves_what_stands_before_it(tail: bytes, truncated: str) -> None:
    assert read(section() + interface() + enhanced(b"abc", 0) + tail) == ([packet(b"abc", at=0)], truncated)


def test_a_capture_cut_anywhere_gives_the_packets_before_the_cut() -> None:
    whole, truncated = read(SAMPLE)
    assert truncated is None
    ends, end = [], 24
    for one in whole:
        end += 16 + len(one.data)
        ends.append(end)
    assert end == len(SAMPLE)
    for cut in range(24, len(SAMPLE), 97):
        packets, truncated = read(SAMPLE[:cut])
        assert packets == whole[: sum(end <= cut for end in ends)]
        assert (truncated is None) == (cut in (24, *ends))


def test_a_cut_is_described_by_its_place() -> None:
    data = pcap(TWO)
    second = 24 + 16 + len(TWO[0].data)
    for cut in range(24, len(data) + 1):
        number, held = (1, cut - 24) if cut < second else (2, cut - second)
        if held in (0, 16 + len(TWO[number - 1].data)):
            expected = None
        elif held < 16:
            expected = f"the file ends inside the header of packet {number}"
        else:
            captured = len(TWO[number - 1].data)
            expected = f"the file ends inside packet {number}, after {held - 16} of {captured} bytes"
        assert read(data[:cut]) == (TWO[: (cut >= second) + (cut == len(data))], expected)


def test_a_cut_of_a_pcapng_is_described_by_its_place() -> None:
    third = len(PCAPNG_TWO) - len(enhanced(b"defghi", 1))
    whole = read(PCAPNG_TWO)[0]
    for cut in range(third, len(PCAPNG_TWO)):
        place = "the header of block 4" if third < cut < third + 8 else "block 4"
        assert read(PCAPNG_TWO[:cut]) == (whole[:1], f"the file ends inside {place}" if cut > third else None)


@pytest.mark.parametrize(("held", "claim"), [(4, 4), (5, 8), (5, 9), (5, 100), (5, 0xFFFF_FFFF)])
def test_a_pcapng_packet_ends_with_its_block(held: int, claim: int) -> None:
    body = struct.pack("<5I", 0, 0, 0, claim, 200) + b"abcde"[:held]
    data = section() + interface() + block(6, body) + enhanced(b"next", 1)
    content = (b"abcde"[:held] + bytes(-held % 4))[:claim]
    assert read(data) == ([packet(content, at=0, wire_length=200), packet(b"next", at=1000)], None)


def zstd_blocks(data: bytes) -> bytes:
    """One frame of many blocks: each can be read when it is there."""
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [
        compressor.compress(data[at : at + 1000]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(data), 1000)
    ]
    return b"".join(parts) + compressor.flush()


@pytest.mark.parametrize(
    ("compressed", "said"),
    [
        (gzip.compress(SAMPLE, mtime=0), "the gzip'd data is truncated"),
        (zstd_blocks(SAMPLE), "the file ends in|None"),
    ],
    ids=["gzip", "zstd"],
)
def test_a_compressed_capture_cut_anywhere_gives_packets_or_one_error(compressed: bytes, said: str) -> None:
    whole, _ = read(SAMPLE)
    counts = []
    for cut in range(1, len(compressed), 97):
        try:
            packets, truncated = read(compressed[:cut])
        except CaptureError:
            continue
        assert packets == whole[: len(packets)]
        assert re.match(said, str(truncated))
        counts.append(len(packets))
    assert counts == sorted(counts)
    assert counts[-1] > 100


@given(st.integers(0, 200), st.binary(max_size=8))
def test_damaged_bytes_never_raise_anything_else(place: int, damage: bytes) -> None:
    pcapng = section() + interface(resolution=9) + enhanced(b"abc", 1) + section(">") + interface(endian=">")
    for data in (pcapng, pcap(TWO)):
        try:
            read(data[:place] + damage + data[place + len(damage) :])
        except CaptureError as error:
            assert str(error)  # noqa: PT017


def test_scapy_is_imported_by_opening_a_file_alone() -> None:
    script = "import sys, kproxy.capture; sys.exit('scapy' in sys.modules or 'cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_file_that_goes_on_with_zeros_is_not_read_to_its_end(compress: Callable[[bytes], bytes]) -> None:
    chunks = 0

    def advance() -> None:
        nonlocal chunks
        chunks += 1

    source = io.BytesIO(compress(pcap(TWO) + zeros(1 << 20)))
    with Capture(source, "zeros", owned=False, advance=advance) as capture:
        assert list(capture) == TWO
        assert capture.truncated == "from packet 3 on, the file holds only zeros: the rest of it is not read"
    assert 0 < chunks < 100


def test_packets_between_zeros_begin_the_count_again() -> None:
    data = pcap(TWO) + zeros(65_535) + pcap(TWO[:1])[24:] + zeros(65_535) + pcap(TWO[:1])[24:]
    packets, truncated = read(data)
    assert len(packets) == 4
    assert truncated == "it has zeros in the place of 131070 packets"
    assert read(data + zeros(65_536))[1] == (
        "from packet 131075 on, the file holds only zeros: the rest of it is not read"
    )


@pytest.mark.parametrize("head", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)])
def test_an_empty_packet_with_a_time_or_a_length_is_one(head: tuple[int, ...]) -> None:
    packets, truncated = read(pcap([]) + struct.pack("<4I", *head))
    assert packets == [(head[0] * 10**9 + head[1] * 1000, 1, b"", head[3])]
    assert truncated is None
    assert read(pcap([]) + struct.pack("<4I", 0, 0, 3, 0) + b"abc") == ([(0, 1, b"abc", 0)], None)


def test_packets_after_some_zeros_are_read() -> None:
    data = pcap(TWO) + zeros(5) + pcap(TWO)[24:]
    assert read(data) == (TWO + TWO, "it has zeros in the place of 5 packets")
    assert read(gzip.compress(data)) == (TWO + TWO, "it has zeros in the place of 5 packets")


def test_progress_is_shown_while_nothing_is_found() -> None:
    chunks = 0

    def advance() -> None:
        nonlocal chunks
        chunks += 1

    data = section() + block(99, b"") * 100_000
    with Capture(io.BytesIO(data), "blocks", owned=False, advance=advance) as capture:
        assert list(capture) == []
    assert chunks >= len(data) // 65_536
