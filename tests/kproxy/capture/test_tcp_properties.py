"""Reassembly yields the same bytes no matter how a stream was segmented, repeated and reordered."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture import BytesCaptured, BytesLost, Event, FlowEnded, FlowOpened, Packet, Reassembler
from tests.kproxy.capture.packets import ACK, SYN, SYN_ACK, tcp_packet


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[bytes, int, list[Packet]]:
    """Draw a byte stream, its first sequence number, and packets that carry the whole stream in a shuffled order."""
    stream = draw(st.binary(min_size=1, max_size=300))
    first_seq = draw(st.sampled_from([0, 1, 1000, 0x7FFF_FFF0, 0xFFFF_FFF0]))
    boundaries = sorted({0, len(stream), *draw(st.lists(st.integers(0, len(stream)), max_size=12))})
    pieces = list(pairwise(boundaries))
    repeated = draw(st.lists(st.tuples(st.integers(0, len(stream)), st.integers(0, len(stream))), max_size=6))
    pieces += [(min(pair), max(pair)) for pair in repeated]
    window = draw(st.integers(1, len(pieces)))
    order = sorted(range(len(pieces)), key=lambda index: index + draw(st.integers(0, window)))
    packets = [
        tcp_packet(first_seq + start, stream[start:end], ack=500, flags=ACK)
        for start, end in (pieces[index] for index in order)
    ]
    return stream, first_seq, packets


def handshake(first_seq: int) -> list[Packet]:
    return [tcp_packet(first_seq - 1, flags=SYN), tcp_packet(499, ack=first_seq, flags=SYN_ACK, server=True)]


@given(deliveries())
def test_any_segmentation_order_and_repetition_yields_the_same_bytes(delivery: tuple[bytes, int, list[Packet]]) -> None:
    stream, first_seq, packets = delivery
    reassembler = Reassembler()
    events = [
        event for captured_packet in [*handshake(first_seq), *packets] for event in reassembler.receive(captured_packet)
    ]
    assert b"".join(event.data for event in events if isinstance(event, BytesCaptured)) == stream
    assert reassembler._waiting_total == 0
    assert [type(event) for event in reassembler.close()] == [FlowEnded]


@given(deliveries(), st.data())
def test_bytes_and_losses_add_up_whatever_the_capture_drops(
    delivery: tuple[bytes, int, list[Packet]], data: st.DataObject
) -> None:
    stream, first_seq, packets = delivery
    keep_flags = data.draw(st.lists(st.booleans(), min_size=len(packets), max_size=len(packets)))
    packets = [packet for packet, keep in zip(packets, keep_flags, strict=True) if keep]
    final_ack = tcp_packet(500, ack=first_seq + len(stream), server=True)
    reassembler = Reassembler()
    events = [
        event
        for captured_packet in [*handshake(first_seq), *packets, final_ack]
        for event in reassembler.receive(captured_packet)
    ]
    position = 0
    for event in [*events, *reassembler.close()]:
        if isinstance(event, BytesCaptured):
            assert event.data == stream[position : position + len(event.data)]
            position += len(event.data)
        elif isinstance(event, BytesLost):
            position += event.size
    assert position == len(stream)


@given(st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=30), st.integers(0, 63), st.booleans()), max_size=30))
def test_any_segments_with_any_flags_leave_nothing_waiting(
    segments: list[tuple[int, bytes, int, bool]],
) -> None:
    reassembler = Reassembler(max_waiting=1000, max_waiting_total=1500, max_flows=2)
    opened_count = ended_count = 0
    for seq, payload, flags, server in segments:
        for event in reassembler.receive(tcp_packet(seq, payload, ack=seq, flags=flags, server=server)):
            ended_count += isinstance(event, FlowEnded)
            opened_count += isinstance(event, FlowOpened)
    ended_count += sum(isinstance(event, FlowEnded) for event in reassembler.close())
    assert opened_count == ended_count
    assert reassembler._waiting_total == 0
    assert not reassembler._gaps


@pytest.mark.slow
@given(deliveries(), st.data())
def test_single_packets_and_blocks_yield_the_same_events(
    delivery: tuple[bytes, int, list[Packet]], data: st.DataObject
) -> None:
    _, first_seq, packets = delivery
    packets = [*handshake(first_seq), *packets]
    block, packet_positions = b"", []
    for packet in packets:
        packet_at, _, content, wire_length = packet
        block += data.draw(st.sampled_from([b"", b"between"]))
        packet_positions.append((packet_at, len(block), len(block) + len(content), wire_length))
        block += content
    block_events: list[Event] = []
    Reassembler().receive_all(1, block + b"after", iter(packet_positions), block_events)
    reassembler = Reassembler()
    single_events = [event for packet in packets for event in reassembler.receive(packet)]
    assert list(map(fields_except_flow, block_events)) == list(map(fields_except_flow, single_events))


def fields_except_flow(event: Event) -> list[object]:
    field_names = getattr(event, "_fields", None) or getattr(event, "__struct_fields__")  # noqa: B009
    return [type(event), *(getattr(event, name) for name in field_names if name != "flow")]
