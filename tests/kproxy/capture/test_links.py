"""The TCP segment in a packet is found for each link layer and IP version."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.links import LINK_TYPES, Segment, endpoints, reverse, tcp_segment
from tests.kproxy.capture.packets import ethernet, ipv4, ipv6, tcp

TCP = tcp(40_000, 9092, 7, b"kafka", ack=9, flags=0x18)
KEY4 = b"\x0a\0\0\2\x0a\0\0\1" + struct.pack("!HH", 40_000, 9092)
KEY6 = bytes(15) + b"\2" + bytes(15) + b"\1" + KEY4[-4:]


def segment(link_type: int, data: bytes, wire_length: int = 0) -> Segment | str:
    return tcp_segment(link_type, data, wire_length or len(data))


@pytest.mark.parametrize(
    ("link_type", "head4", "head6"),
    [
        (1, bytes(12) + b"\x08\x00", bytes(12) + b"\x86\xdd"),
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00", bytes(12) + b"\x81\x00\x00\x05\x86\xdd"),
        (1, bytes(12) + b"\x88\xa8\x00\x09\x81\x00\x00\x05\x08\x00", bytes(12) + b"\x91\x00\0\1\x81\x00\0\1\x86\xdd"),
        (113, bytes(14) + b"\x08\x00", bytes(14) + b"\x86\xdd"),
        (276, b"\x08\x00" + bytes(18), b"\x86\xdd" + bytes(18)),
        (0, b"\2\0\0\0", b"\x1e\0\0\0"),
        (0, b"\0\0\0\2", b"\0\0\0\x0a"),
        (108, b"\0\0\0\2", b"\0\0\0\x18"),
        (12, b"", b""),
        (14, b"", b""),
        (101, b"", b""),
        (228, b"", b""),
        (229, b"", b""),
    ],
)
def test_tcp_segment_is_found_behind_each_link_layer(link_type: int, head4: bytes, head6: bytes) -> None:
    assert link_type in LINK_TYPES
    assert segment(link_type, head4 + ipv4(TCP)) == Segment(KEY4, 7, 9, 0x18, b"kafka", 0)
    assert segment(link_type, head6 + ipv6(TCP)) == Segment(KEY6, 7, 9, 0x18, b"kafka", 0)


def test_skips_ip_and_tcp_options() -> None:
    with_options = TCP[:12] + b"\x80" + TCP[13:20] + bytes(12) + b"kafka"
    assert segment(1, ethernet(ipv4(with_options, options=8))) == Segment(KEY4, 7, 9, 0x18, b"kafka", 0)
    assert segment(1, ethernet(ipv4(with_options))) == Segment(KEY4, 7, 9, 0x18, b"kafka", 0)


def test_skips_ipv6_extension_headers() -> None:
    hop_by_hop, routing, options = b"\x2b\0" + bytes(6), b"\x33\1" + bytes(14), b"\x06\0" + bytes(6)
    authentication, whole_fragment = b"\x2c\4" + bytes(22), b"\x3c\0\0\0" + bytes(4)
    headers = hop_by_hop + routing + authentication + whole_fragment + options
    assert segment(101, ipv6(headers + TCP, next_header=0)) == Segment(KEY6, 7, 9, 0x18, b"kafka", 0)


def test_ethernet_padding_is_not_payload() -> None:
    for content, ethertype, key in ((ipv4(TCP[:20]), 0x0800, KEY4), (ipv6(TCP[:20]), 0x86DD, KEY6)):
        assert segment(1, ethernet(content, ethertype) + bytes(6)) == Segment(key, 7, 9, 0x18, b"", 0)


def test_bytes_cut_off_by_the_snapshot_length_are_counted() -> None:
    data = ethernet(ipv4(TCP))
    assert segment(1, data[:-2], len(data)) == Segment(KEY4, 7, 9, 0x18, b"kaf", 2)
    assert segment(1, ethernet(ipv6(TCP), 0x86DD)[:-5], len(data)) == Segment(KEY6, 7, 9, 0x18, b"", 5)
    in_tcp_options = ethernet(ipv4(TCP[:12] + b"\x80" + TCP[13:20] + bytes(12) + b"kafka"))
    assert segment(1, in_tcp_options[:60], len(in_tcp_options)) == Segment(KEY4, 7, 9, 0x18, b"", 5)


def test_ip_length_of_zero_means_a_segment_above_64_kib() -> None:
    for data, key in ((ethernet(ipv4(TCP, length=0)), KEY4), (ethernet(ipv6(TCP, length=0), 0x86DD), KEY6)):
        assert segment(1, data) == Segment(key, 7, 9, 0x18, b"kafka", 0)
        assert segment(1, data, len(data) + 100_000) == Segment(key, 7, 9, 0x18, b"kafka", 100_000)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ethernet(bytes(28), 0x0806), "not IP"),
        (ethernet(ipv4(TCP, protocol=17)), "not TCP"),
        (ethernet(ipv4(TCP, protocol=17, options=4)), "not TCP"),
        (ethernet(ipv6(TCP, next_header=17), 0x86DD), "not TCP"),
        (ethernet(ipv6(b"\x06" + bytes(7) + TCP, next_header=59), 0x86DD), "not TCP"),
        (ethernet(ipv4(TCP, fragment=0x2000)), "IP fragment"),
        (ethernet(ipv4(TCP, fragment=0x00B9)), "IP fragment"),
        (ethernet(ipv4(TCP, fragment=0x2000, options=4)), "IP fragment"),
        (ethernet(ipv6(b"\x06\0\0\1" + bytes(4) + TCP, next_header=44), 0x86DD), "IP fragment"),
        (ethernet(ipv4(TCP, length=39)), "malformed TCP header"),
        (ethernet(ipv4(TCP[:12] + b"\x40" + TCP[13:])), "malformed TCP header"),
        (ethernet(b"\x44" + ipv4(TCP)[1:]), "malformed IP header"),
        (ethernet(b"\x65" + ipv4(TCP)[1:]), "malformed IP header"),
        (ethernet(ipv4(TCP), 0x86DD), "malformed IP header"),
        (ethernet(ipv4(TCP))[:50], None),
        (ethernet(ipv4(TCP))[:40], "truncated headers"),
        (ethernet(ipv6(TCP), 0x86DD)[:60], "truncated headers"),
        (b"", "truncated headers"),
    ],
)
def test_reports_why_a_packet_is_skipped(data: bytes, reason: str | None) -> None:
    result = segment(1, data, 1500)
    if reason is None:
        assert isinstance(result, Segment)
    else:
        assert result == reason


def test_reports_an_unsupported_link_type() -> None:
    assert segment(189, ethernet(ipv4(TCP))) == "link type 189 is not supported"


def test_reads_endpoints_and_their_reverse() -> None:
    assert endpoints(KEY4) == (("10.0.0.2", 40_000), ("10.0.0.1", 9092))
    assert endpoints(KEY6) == (("::2", 40_000), ("::1", 9092))
    for key in (KEY4, KEY6):
        assert endpoints(reverse(key)) == endpoints(key)[::-1]


@given(st.sampled_from([*LINK_TYPES, 189]), st.integers(0, 80), st.binary(max_size=6))
def test_any_bytes_yield_a_segment_or_a_reason(link_type: int, offset: int, damage: bytes) -> None:
    valid = ethernet(ipv6(b"\x06\0" + bytes(6) + TCP, next_header=0), 0x86DD) if offset % 2 else ethernet(ipv4(TCP))
    data = valid[14:] if link_type in (12, 101) else valid
    result = segment(link_type, data[:offset] + damage + data[offset + len(damage) :])
    if isinstance(result, Segment):
        assert result.payload in data + damage or damage
        assert result.missing >= 0
    else:
        assert result
