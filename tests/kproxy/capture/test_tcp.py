"""The reassembler copes with the situations that TCP and packet capture give rise to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from kproxy.capture import BytesCaptured, BytesLost, Event, FlowEnded, FlowOpened, Packet, Reassembler, SegmentDiffers
from tests.kproxy.capture.packets import (
    ACK,
    AT,
    CLIENT,
    FIN_ACK,
    RST,
    RST_ACK,
    SERVER,
    SYN,
    SYN_ACK,
    ethernet,
    ipv4,
    packet,
    tcp,
    tcp_packet,
)

HANDSHAKE = [
    tcp_packet(99, flags=SYN),
    tcp_packet(499, ack=100, flags=SYN_ACK, server=True),
    tcp_packet(100, ack=500),
]


def reassemble(packets: Iterable[Packet], reassembler: Reassembler | None = None) -> list[Event]:
    reassembler = reassembler or Reassembler()
    events = [event for packet in packets for event in reassembler.receive(packet)]
    return [*events, *reassembler.close()]


def summarise(events: Iterable[Event]) -> Iterator[tuple[object, ...]]:
    """Yield (direction, bytes or number of lost bytes) for data and (how, by which side) for the end of a flow."""
    for event in events:
        if isinstance(event, BytesCaptured):
            yield event.direction, event.data
        elif isinstance(event, BytesLost):
            yield event.direction, event.size
        elif isinstance(event, FlowEnded):
            yield event.how, event.by


def summarise_after_handshake(*packets: Packet) -> list[tuple[object, ...]]:
    return list(summarise(reassemble([*HANDSHAKE, *packets])))


STILL_OPEN = ("end of capture", None)


def test_connection_opens_exchanges_data_and_ends() -> None:
    packets = [
        *HANDSHAKE,
        tcp_packet(100, b"ask", ack=500, at=AT + 1),
        tcp_packet(500, b"answer", ack=103, server=True, at=AT + 2),
        tcp_packet(103, ack=506, flags=FIN_ACK, at=AT + 3),
        tcp_packet(506, ack=104, flags=FIN_ACK, server=True, at=AT + 4),
        tcp_packet(104, ack=507, at=AT + 5),
    ]
    opened_event, request, response, ended_event = reassemble(packets)
    assert isinstance(opened_event, FlowOpened)
    flow = opened_event.flow
    assert (flow.id, flow.client, flow.server, flow.midstream) == (0, CLIENT, SERVER, False)
    assert opened_event.at == AT
    assert request == BytesCaptured(flow, 0, AT + 1, b"ask")
    assert response == BytesCaptured(flow, 1, AT + 2, b"answer")
    assert ended_event == FlowEnded(flow, AT + 4, "fin", 0)


def test_side_that_sends_the_first_fin_is_reported_as_ending_the_connection() -> None:
    assert summarise_after_handshake(
        tcp_packet(500, ack=100, flags=FIN_ACK, server=True),
        tcp_packet(100, b"last words", ack=501),
        tcp_packet(110, ack=501, flags=FIN_ACK),
    ) == [(0, b"last words"), ("fin", 1)]


def test_fin_may_carry_data() -> None:
    assert summarise_after_handshake(
        tcp_packet(100, b"bye", ack=500, flags=FIN_ACK), tcp_packet(500, b"ok", ack=104, flags=FIN_ACK, server=True)
    ) == [(0, b"bye"), (1, b"ok"), ("fin", 0)]


@pytest.mark.parametrize("flags", [RST, RST_ACK])
def test_reset_ends_both_directions(flags: int) -> None:
    assert summarise_after_handshake(
        tcp_packet(100, b"ask", ack=500),
        tcp_packet(500, ack=103, flags=flags, server=True),
        tcp_packet(103, b"too late", ack=500),
    ) == [(0, b"ask"), ("reset", 1)]


def test_reset_in_response_to_a_syn_means_refused() -> None:
    events = list(
        summarise(reassemble([tcp_packet(99, flags=SYN), tcp_packet(0, ack=100, flags=RST_ACK, server=True)]))
    )
    assert events == [("refused", 1)]


def test_reset_of_an_older_connection_is_ignored() -> None:
    old_reset = tcp_packet(500 + (1 << 30), flags=RST, server=True)
    data = tcp_packet(500, b"answer", ack=100, server=True)
    assert summarise_after_handshake(data, old_reset, tcp_packet(506, b"!", ack=100, server=True)) == [
        (1, b"answer"),
        (1, b"!"),
        STILL_OPEN,
    ]


def test_data_in_a_syn_is_read() -> None:
    packets = [
        tcp_packet(99, b"early", flags=SYN),
        tcp_packet(499, ack=105, flags=SYN_ACK, server=True),
        tcp_packet(105, b" bird", ack=500),
    ]
    assert list(summarise(reassemble(packets))) == [(0, b"early"), (0, b" bird"), STILL_OPEN]


def test_retransmissions_are_dropped() -> None:
    assert summarise_after_handshake(
        tcp_packet(100, b"abc", ack=500),
        tcp_packet(100, b"abc", ack=500),
        tcp_packet(103, b"def", ack=500),
        tcp_packet(101, b"bcd", ack=500),
    ) == [(0, b"abc"), (0, b"def"), STILL_OPEN]


def test_longer_retransmission_yields_only_its_new_bytes() -> None:
    assert summarise_after_handshake(tcp_packet(100, b"abc", ack=500), tcp_packet(100, b"abcdef", ack=500)) == [
        (0, b"abc"),
        (0, b"def"),
        STILL_OPEN,
    ]


def test_duplicate_packets_are_ignored() -> None:
    packets = [
        *HANDSHAKE,
        tcp_packet(100, b"ask", ack=500),
        tcp_packet(500, b"answer", ack=103, server=True),
        tcp_packet(103, ack=506, flags=FIN_ACK),
        tcp_packet(506, ack=104, flags=FIN_ACK, server=True),
    ]
    duplicated_packets = [packet for packet in packets for _ in range(2)]
    assert (
        list(summarise(reassemble(duplicated_packets)))
        == list(summarise(reassemble(packets)))
        == [(0, b"ask"), (1, b"answer"), ("fin", 0)]
    )


def test_out_of_order_segments_wait_for_the_missing_one() -> None:
    reassembler = Reassembler()
    handshake_events = [event for packet in HANDSHAKE for event in reassembler.receive(packet)]
    assert len(handshake_events) == 1
    assert reassembler.receive(tcp_packet(106, b"ghi", ack=500, at=AT + 1)) == []
    assert reassembler.receive(tcp_packet(103, b"def", ack=500, at=AT + 2)) == []
    events = reassembler.receive(tcp_packet(100, b"abc", ack=500, at=AT + 3))
    assert list(summarise(events)) == [(0, b"abc"), (0, b"def"), (0, b"ghi")]
    assert {event.at for event in events} == {AT + 3}, "bytes are readable when the gap fills"


def test_bytes_captured_first_take_precedence_over_later_copies() -> None:
    assert summarise_after_handshake(
        tcp_packet(103, b"DEF", ack=500), tcp_packet(102, b"cdefgh", ack=500), tcp_packet(100, b"abcd", ack=500)
    ) == [
        (0, b"ab"),
        (0, b"c"),
        (0, b"DEF"),
        (0, b"gh"),
        STILL_OPEN,
    ]


def find_differences(
    *packets: Packet, start: int = 100, reassembler: Reassembler | None = None
) -> list[tuple[int, ...]]:
    """Return (direction, time, offset, size, differing bytes) for packets that contradict earlier ones."""
    handshake = [
        tcp_packet(start - 1, flags=SYN),
        tcp_packet(499, ack=start, flags=SYN_ACK, server=True),
        tcp_packet(start, ack=500),
    ]
    events = reassemble([*handshake, *packets], reassembler)
    return [event[1:] for event in events if isinstance(event, SegmentDiffers)]


@pytest.mark.parametrize("start", [100, 0xFFFF_FFFE])
def test_reports_a_retransmission_with_different_bytes(start: int) -> None:
    segments = [tcp_packet(start, b"abc"), tcp_packet(start + 3, b"defgh")]
    assert find_differences(*segments, tcp_packet(start + 1, b"bXdeYgh", at=AT + 7), start=start) == [
        (0, AT + 7, 2, 7, 2)
    ]
    assert find_differences(*segments, tcp_packet(start + 6, b"gXnew", at=AT + 8), start=start) == [
        (0, AT + 8, 7, 5, 1)
    ]


def test_compares_retransmissions_from_the_server() -> None:
    assert find_differences(tcp_packet(500, b"one", server=True), tcp_packet(500, b"two", server=True)) == [
        (1, AT, 0, 3, 3)
    ]


def test_bytes_waiting_behind_a_gap_are_also_compared() -> None:
    segments_after_gap = [tcp_packet(103, b"de"), tcp_packet(107, b"hi")]
    assert find_differences(*segments_after_gap, tcp_packet(100, b"abcdXfgYi", at=AT + 9)) == [(0, AT + 9, 4, 9, 2)]
    assert find_differences(*segments_after_gap, tcp_packet(103, b"de"), tcp_packet(100, b"abcdefghi")) == []
    assert find_differences(tcp_packet(103, b"defg"), tcp_packet(104, b"eXg")) == [(0, AT, 5, 3, 1)]
    assert find_differences(
        *segments_after_gap, tcp_packet(105, b"fg"), tcp_packet(100, b"abc"), tcp_packet(103, b"dX")
    ) == [(0, AT, 4, 2, 1)]


@pytest.mark.parametrize(
    "retransmission",
    [
        tcp_packet(100, b"abcdef"),
        tcp_packet(102, b"cd"),
        tcp_packet(104, b"efghi"),
        tcp_packet(105, b"\0"),  # keep-alive probes
        tcp_packet(105),
        tcp_packet(90, b"0123456789"),  # bytes before the beginning
        packet(tcp_packet(100, b"abcdef").data[:-4], wire_length=60),  # cut by the snapshot length
    ],
)
def test_does_not_report_an_identical_retransmission(retransmission: Packet) -> None:
    assert find_differences(tcp_packet(100, b"abcdef"), retransmission) == []


def test_does_not_compare_bytes_that_were_not_captured() -> None:
    truncated_packet = packet(tcp_packet(100, b"abcdef").data[:-4], wire_length=60)
    assert find_differences(truncated_packet, tcp_packet(100, b"abXXXX")) == []
    assert find_differences(truncated_packet, tcp_packet(100, b"aXXXXX")) == [(0, AT, 1, 6, 1)]


def test_keeps_only_the_last_bytes_for_comparison() -> None:
    packets = [tcp_packet(100 + 300 * index, bytes(300)) for index in range(5)]
    retransmissions = [tcp_packet(100 + 300 * index, b"x" * 300, at=index) for index in range(5)]
    differences = find_differences(*packets, *retransmissions, reassembler=Reassembler(max_recent=1000))
    assert differences == [(0, 2, 600, 300, 300), (0, 3, 900, 300, 300), (0, 4, 1200, 300, 300)]


def test_bytes_before_and_after_lost_bytes_are_compared() -> None:
    truncated_packet = ethernet(ipv4(tcp(CLIENT[1], SERVER[1], 110, b"abc", ack=500), length=20 + 20 + 8))
    packets = [
        tcp_packet(100, b"ask", ack=500),
        tcp_packet(107, b"for", ack=500),
        tcp_packet(500, ack=110, server=True),  # 103 to 107 are lost
        packet(truncated_packet, wire_length=len(truncated_packet) + 5),  # 113 to 118 are lost
        tcp_packet(118, b"end", ack=500),
    ]
    assert lost_sizes(packets) == [4, 5]
    retransmissions = [
        tcp_packet(100, b"ASk", at=1),
        tcp_packet(107, b"fOr", at=2),
        tcp_packet(110, b"abC", at=3),
        tcp_packet(118, b"End", at=4),
    ]
    assert find_differences(*packets, *retransmissions) == [
        (0, 1, 0, 3, 2),
        (0, 2, 8, 3, 1),
        (0, 3, 12, 3, 1),
        (0, 4, 18, 3, 1),
    ]


def lost_sizes(packets: list[Packet]) -> list[int]:
    return [event.size for event in reassemble([*HANDSHAKE, *packets]) if isinstance(event, BytesLost)]


def test_data_from_the_other_side_displaces_bytes_kept_for_comparison() -> None:
    server_packets = [tcp_packet(500 + 300 * index, bytes(300), server=True) for index in range(5)]
    assert find_differences(
        tcp_packet(100, b"ask"), *server_packets[:1], tcp_packet(100, b"ASK"), reassembler=Reassembler(max_recent=1000)
    )
    assert not find_differences(
        tcp_packet(100, b"ask"), *server_packets, tcp_packet(100, b"ASK"), reassembler=Reassembler(max_recent=1000)
    )


def test_sequence_numbers_may_wrap_around() -> None:
    start = 0xFFFF_FFFE
    packets = [
        tcp_packet(start - 1, flags=SYN),
        tcp_packet(499, ack=start, flags=SYN_ACK, server=True),
        tcp_packet(start + 6, b"ghi", ack=500),
        tcp_packet(start, b"abc", ack=500),
        tcp_packet(start, b"abc", ack=500),
        tcp_packet(500, b"ok", ack=start + 3, server=True),
        tcp_packet(start + 3, b"def", ack=502),
        tcp_packet(start + 9, b"jkl", ack=502),
    ]
    assert list(summarise(reassemble(packets))) == [
        (0, b"abc"),
        (1, b"ok"),
        (0, b"def"),
        (0, b"ghi"),
        (0, b"jkl"),
        STILL_OPEN,
    ]


@pytest.mark.parametrize("probe", [b"", b"c", b"\0"])
def test_keep_alive_probes_are_not_data(probe: bytes) -> None:
    assert summarise_after_handshake(
        tcp_packet(100, b"abc", ack=500),
        tcp_packet(102, probe, ack=500),
        tcp_packet(500, ack=103, server=True),
        tcp_packet(103, b"def", ack=500),
    ) == [(0, b"abc"), (0, b"def"), STILL_OPEN]


def test_zero_window_probe_carries_the_next_byte() -> None:
    assert summarise_after_handshake(
        tcp_packet(100, b"a", ack=500), tcp_packet(500, ack=100, server=True), tcp_packet(100, b"abc", ack=500)
    ) == [
        (0, b"a"),
        (0, b"bc"),
        STILL_OPEN,
    ]


def test_acknowledged_bytes_missing_from_the_capture_are_lost() -> None:
    assert summarise_after_handshake(
        tcp_packet(110, b"after the gap", ack=500), tcp_packet(500, b"answer", ack=123, server=True)
    ) == [
        (0, 10),
        (0, b"after the gap"),
        (1, b"answer"),
        STILL_OPEN,
    ]


def test_acknowledged_gap_counts_as_lost_immediately() -> None:
    assert summarise_after_handshake(
        tcp_packet(500, b"answer", ack=110, server=True), tcp_packet(110, b"next", ack=506)
    ) == [
        (1, b"answer"),
        (0, 10),
        (0, b"next"),
        STILL_OPEN,
    ]


def test_duplicate_acknowledgements_leave_a_gap_open() -> None:
    assert summarise_after_handshake(
        tcp_packet(103, b"def", ack=500), tcp_packet(500, ack=100, server=True), tcp_packet(100, b"abc", ack=500)
    ) == [
        (0, b"abc"),
        (0, b"def"),
        STILL_OPEN,
    ]


def test_missing_bytes_before_the_fin_are_reported_as_lost() -> None:
    assert summarise_after_handshake(
        tcp_packet(107, ack=500, flags=FIN_ACK), tcp_packet(500, ack=108, flags=FIN_ACK, server=True)
    ) == [
        (0, 7),
        ("fin", 0),
    ]


def test_end_of_the_capture_releases_waiting_bytes() -> None:
    assert summarise_after_handshake(tcp_packet(103, b"def", ack=500), tcp_packet(109, b"jkl", ack=500)) == [
        (0, 3),
        (0, b"def"),
        (0, 3),
        (0, b"jkl"),
        STILL_OPEN,
    ]


def test_missing_acknowledged_bytes_are_lost_at_the_end() -> None:
    assert summarise_after_handshake(tcp_packet(500, b"answer", ack=120, server=True)) == [
        (1, b"answer"),
        (0, 20),
        STILL_OPEN,
    ]


def test_bytes_cut_by_the_snapshot_length_are_lost_in_order() -> None:
    full_packet = tcp_packet(100, b"abcdef", ack=500)
    truncated_packet = packet(full_packet.data[:-4], at=AT, wire_length=len(full_packet.data))
    assert summarise_after_handshake(truncated_packet, tcp_packet(106, b"ghi", ack=500)) == [
        (0, b"ab"),
        (0, 4),
        (0, b"ghi"),
        STILL_OPEN,
    ]
    assert summarise_after_handshake(tcp_packet(106, b"ghi", ack=500), truncated_packet) == [
        (0, b"ab"),
        (0, 4),
        (0, b"ghi"),
        STILL_OPEN,
    ]


def test_client_of_a_midstream_flow_is_guessed_by_its_port() -> None:
    for first_packet in (tcp_packet(1000, b"x", ack=5), tcp_packet(5, b"x", ack=1000, server=True)):
        opened = reassemble([first_packet])[0]
        assert isinstance(opened, FlowOpened)
        assert opened.flow.midstream
        assert opened.flow.endpoints == (CLIENT, SERVER)


def test_midstream_flow_starts_with_its_first_data() -> None:
    packets = [
        tcp_packet(1000, ack=50),
        tcp_packet(1000, b"abc", ack=50),
        tcp_packet(50, b"xyz", ack=1003, server=True),
        tcp_packet(1003, b"def", ack=53),
    ]
    assert list(summarise(reassemble(packets))) == [(0, b"abc"), (1, b"xyz"), (0, b"def"), STILL_OPEN]


def test_midstream_flow_does_not_start_with_a_retransmission() -> None:
    packets = [
        tcp_packet(50, b"xyz", ack=1010, server=True),
        tcp_packet(1000, b"old bytes!", ack=53),
        tcp_packet(1010, b"new", ack=53),
    ]
    assert list(summarise(reassemble(packets))) == [(1, b"xyz"), (0, b"new"), STILL_OPEN]


@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_incomplete_handshake_still_shows_the_client_and_first_byte(dropped: int) -> None:
    handshake = [packet for number, packet in enumerate(HANDSHAKE) if number != dropped]
    events = reassemble([*handshake, tcp_packet(103, b"def", ack=500), tcp_packet(500, b"ok", ack=106, server=True)])
    opened = events[0]
    assert isinstance(opened, FlowOpened)
    assert (opened.flow.client, opened.flow.midstream) == (CLIENT, False)
    assert list(summarise(events)) == [(0, 3), (0, b"def"), (1, b"ok"), STILL_OPEN]


def test_single_captured_direction_can_be_read() -> None:
    packets = [tcp_packet(99, flags=SYN), tcp_packet(100, b"abc", ack=500), tcp_packet(103, b"def", ack=600)]
    assert list(summarise(reassemble(packets)))[:2] == [(0, b"abc"), (0, b"def")]


def test_packets_without_data_open_no_flow() -> None:
    assert (
        reassemble([tcp_packet(1, ack=1), tcp_packet(1, flags=RST), tcp_packet(1, ack=1, flags=FIN_ACK, server=True)])
        == []
    )


def test_new_syn_on_the_same_ports_replaces_the_flow() -> None:
    new_connection = [tcp_packet(7000, flags=SYN), tcp_packet(7001, b"new", ack=1)]
    events = reassemble([*HANDSHAKE, tcp_packet(100, b"old", ack=500), *new_connection])
    assert list(summarise(events)) == [(0, b"old"), ("replaced", None), (0, b"new"), STILL_OPEN]
    assert [event.flow.id for event in events] == [0, 0, 0, 1, 1, 1]


def test_reuse_of_ports_after_the_end_of_a_flow_opens_a_new_one() -> None:
    reset = tcp_packet(500, ack=103, flags=RST_ACK, server=True)
    new_connection = [tcp_packet(7000, flags=SYN), tcp_packet(7001, b"new", ack=1)]
    assert summarise_after_handshake(tcp_packet(100, b"old", ack=500), reset, *new_connection) == [
        (0, b"old"),
        ("reset", 1),
        (0, b"new"),
        STILL_OPEN,
    ]


@pytest.mark.parametrize("distance", [-(1 << 28), 1 << 28])
def test_distant_sequence_numbers_show_a_new_flow_without_a_handshake(distance: int) -> None:
    reset = tcp_packet(500, ack=103, flags=RST_ACK, server=True)
    events = reassemble(
        [*HANDSHAKE, tcp_packet(100, b"old", ack=500), reset, tcp_packet(103 + distance, b"new", ack=9)]
    )
    assert list(summarise(events)) == [(0, b"old"), ("reset", 1), (0, b"new"), STILL_OPEN]


def test_repeated_handshake_opens_one_flow() -> None:
    events = reassemble([*HANDSHAKE, *HANDSHAKE, tcp_packet(100, b"abc", ack=500), *HANDSHAKE])
    assert [type(event) for event in events] == [FlowOpened, BytesCaptured, FlowEnded]


def test_packets_after_the_end_open_no_flow_and_are_counted() -> None:
    reassembler = Reassembler()
    late_packets = [tcp_packet(103, b"late", ack=500), tcp_packet(107, ack=500)]
    events = reassemble([*HANDSHAKE, tcp_packet(500, ack=103, flags=RST, server=True), *late_packets], reassembler)
    assert list(summarise(events)) == [("reset", 1)]
    assert reassembler.skipped == {"data after the end of its connection": 1}


def test_counts_skipped_packets_by_reason() -> None:
    reassembler = Reassembler()
    other_packets = [packet(ethernet(ipv4(b"", protocol=17))), packet(ethernet(b"", 0x0806)), packet(b"", 189)]
    assert reassemble([*other_packets, other_packets[0]], reassembler) == []
    assert reassembler.skipped == {"not TCP": 2, "not IP": 1, "link type 189 is not supported": 1}


def test_reads_a_socket_connected_to_itself() -> None:
    data = ethernet(ipv4(tcp(5000, 5000, 1, b"echo"), source=b"\x7f\0\0\1", destination=b"\x7f\0\0\1"))
    reassembler = Reassembler(max_flows=1)
    events = reassemble([packet(data), tcp_packet(1, b"another")], reassembler)
    assert [event.data for event in events if isinstance(event, BytesCaptured)] == [b"echo", b"another"]


def packet_from_port(port: int, payload: bytes = b"", flags: int = ACK, *, seq: int = 1, at: int = AT) -> Packet:
    return packet(ethernet(ipv4(tcp(port, 9092, seq, payload, flags=flags))), at=at)


def test_least_active_flows_are_evicted_if_there_are_too_many() -> None:
    reassembler = Reassembler(max_flows=16)
    opening_packets = [packet_from_port(42_000 + n, b"x", at=AT + n) for n in range(16)]
    active_packet = packet_from_port(42_000, b"y", seq=2, at=AT + 50)
    extra_packet = packet_from_port(43_000, b"x", at=AT + 60)
    events = [
        event
        for captured_packet in (*opening_packets, active_packet, extra_packet)
        for event in reassembler.receive(captured_packet)
    ]
    end_events = [event for event in events if isinstance(event, FlowEnded)]
    assert [event.flow.client[1] for event in end_events] == [42_001, 42_002, 42_003]
    assert {(event.how, event.at) for event in end_events} == {("timeout", AT + 60)}


def test_ended_flows_are_evicted_first_and_without_an_event() -> None:
    reassembler = Reassembler(max_flows=8)
    packets = [packet_from_port(42_000 + n, b"x", at=AT + n) for n in range(8)]
    packets += [packet_from_port(42_000 + n, flags=RST, seq=2, at=AT + 20) for n in (6, 7)]
    packets += [packet_from_port(43_000, b"x", at=AT + 30)]
    events = [event for captured_packet in packets for event in reassembler.receive(captured_packet)]
    assert [event.how for event in events if isinstance(event, FlowEnded)] == ["reset", "reset"]


def test_memory_for_many_flows_is_limited() -> None:
    reassembler = Reassembler(max_flows=64)
    opened_count = ended_count = 0
    for number in range(5000):
        for event in reassembler.receive(packet_from_port(40_000 + number, b"x")):
            opened_count += isinstance(event, FlowOpened)
            ended_count += isinstance(event, FlowEnded)
    assert opened_count == 5000
    assert len(reassembler._connections) == opened_count - ended_count <= 64
    assert len(reassembler._senders) == 2 * len(reassembler._connections)


def test_limits_the_bytes_that_one_direction_keeps_behind_a_gap() -> None:
    reassembler = Reassembler(max_waiting=10_000)
    packets = [*HANDSHAKE, *(tcp_packet(200 + 1000 * n, bytes(1000), ack=500) for n in range(8))]
    events = [event for captured_packet in packets for event in reassembler.receive(captured_packet)]
    assert not list(summarise(events))
    events = [*reassembler.receive(tcp_packet(8200, bytes(1000), ack=500))]
    assert list(summarise(events)) == [(0, 100)] + 9 * [(0, bytes(1000))]


def test_oldest_gap_is_given_up_above_the_total_limit() -> None:
    reassembler = Reassembler(max_waiting_total=3000)
    events: list[Event] = []
    for number in range(3):
        events += reassembler.receive(packet_from_port(42_000 + number, b"begin"))
        events += reassembler.receive(packet_from_port(42_000 + number, bytes(1000), seq=10))
    lost = [event for event in events if isinstance(event, BytesLost)]
    assert [(event.flow.client[1], event.size) for event in lost] == [(42_000, 4)]
    assert list(summarise(reassembler.close())).count((0, 4)) == 2


def test_unanswered_syns_are_reported_as_no_answer() -> None:
    packets = [tcp_packet(99, flags=SYN), tcp_packet(99, flags=SYN, at=AT + 1), tcp_packet(99, flags=SYN, at=AT + 2)]
    [end_event] = [event for event in reassemble(packets) if isinstance(event, FlowEnded)]
    assert (end_event.how, end_event.at, end_event.attempts) == ("no answer", AT + 2, 3)


def test_single_syn_at_the_end_of_a_capture_is_not_reported_as_unanswered() -> None:
    assert list(summarise(reassemble([tcp_packet(99, flags=SYN)]))) == [("end of capture", None)]


def test_repeated_syn_followed_by_data_counts_as_an_established_connection() -> None:
    packets = [tcp_packet(99, flags=SYN), tcp_packet(99, flags=SYN), tcp_packet(100, b"x")]
    [end_event] = [event for event in reassemble(packets) if isinstance(event, FlowEnded)]
    assert (end_event.how, end_event.attempts) == ("end of capture", 0)


def test_capture_ends_at_the_time_of_the_last_packet() -> None:
    *_, end_event = reassemble([*HANDSHAKE, tcp_packet(100, b"abc", ack=500, at=AT + 7)])
    assert isinstance(end_event, FlowEnded)
    assert end_event.at == AT + 7


NEXT_SEGMENT = tcp(CLIENT[1], SERVER[1], 100, b"abc", ack=500)


@pytest.mark.parametrize(
    ("unusual_packet", "expected", "skip_reason"),
    [
        (packet(ethernet(ipv4(NEXT_SEGMENT, options=8))), [b"abc"], None),
        (packet(ethernet(ipv4(NEXT_SEGMENT, length=0))), [b"abc"], None),
        (packet(ethernet(ipv4(NEXT_SEGMENT) + b"padding")), [b"abc"], None),
        (packet(bytes(12) + b"\x81\0\0\1\x08\0" + ipv4(NEXT_SEGMENT)), [b"abc"], None),
        (packet(ipv4(NEXT_SEGMENT), 101), [b"abc"], None),
        (packet(ethernet(ipv4(NEXT_SEGMENT))[:-1], wire_length=57), [b"ab", 1], None),
        (packet(ethernet(ipv4(NEXT_SEGMENT, fragment=0x2000))), [], "IP fragment"),
        (packet(ethernet(ipv4(NEXT_SEGMENT, protocol=17))), [], "not TCP"),
        (packet(ethernet(ipv4(NEXT_SEGMENT), 0x0806)), [], "not IP"),
        (packet(ethernet(b"\x65" + ipv4(NEXT_SEGMENT)[1:])), [], "malformed IP header"),
        (packet(ethernet(ipv4(NEXT_SEGMENT)), 113), [], "not IP"),
        (packet(ethernet(ipv4(NEXT_SEGMENT[:12] + b"\x40" + NEXT_SEGMENT[13:]))), [], "malformed TCP header"),
        (packet(ethernet(ipv4(NEXT_SEGMENT, length=39))), [], "malformed TCP header"),
        (packet(ethernet(ipv4(NEXT_SEGMENT))[:53]), [3], None),
        (packet(ethernet(ipv4(NEXT_SEGMENT))[:47]), [], "truncated headers"),
    ],
)
def test_reads_an_unusual_packet_between_usual_ones(
    unusual_packet: Packet, expected: list[object], skip_reason: str | None
) -> None:
    """The unusual packet shares a block with others and is the next packet of an open connection."""
    packet_before, packet_after = tcp_packet(500, b"ok", ack=100, server=True), tcp_packet(103, b"xyz", ack=502)
    if not expected:
        packet_after = tcp_packet(100, b"xyz", ack=502)
    reassembler = Reassembler()
    handshake_events = [
        event
        for captured_packet in [*HANDSHAKE, tcp_packet(500, ack=100, server=True)]
        for event in reassembler.receive(captured_packet)
    ]
    assert len(handshake_events) == 1
    data, events = packet_before.data + unusual_packet.data + packet_after.data, list[Event]()
    end_offsets = [len(packet_before.data), len(packet_before.data) + len(unusual_packet.data), len(data)]
    start_offsets = [0, *end_offsets]
    for captured_packet, start, end in zip(
        (packet_before, unusual_packet, packet_after), start_offsets, end_offsets, strict=False
    ):
        reassembler.receive_all(
            captured_packet.link_type,
            data,
            iter([(captured_packet.at, start, end, captured_packet.wire_length)]),
            events,
        )
    assert [value for _, value in summarise(events)] == [b"ok", *expected, b"xyz"]
    assert reassembler.skipped == ({} if skip_reason is None else {skip_reason: 1})


RETRIES = [tcp_packet(100, b"ask", ack=500)] * 4


@pytest.mark.parametrize(
    ("packets", "unacknowledged"),
    [
        (RETRIES, (0, 4)),
        ([*RETRIES, tcp_packet(500, ack=103, server=True)], None),
        (
            [*RETRIES[:2], tcp_packet(500, ack=100, server=True), *RETRIES[:1]],
            (0, 2),
        ),  # the server's receive window is full
        ([*RETRIES, tcp_packet(103, b"more", ack=500)], None),
        (
            [
                tcp_packet(100, b"ask", ack=500),
                tcp_packet(500, ack=103, server=True),
                *[tcp_packet(102, b"k", ack=500)] * 4,
            ],
            None,
        ),
        ([tcp_packet(500, b"answer", ack=100, server=True)] * 3, (1, 3)),
    ],
    ids=["never", "acknowledged at last", "seen meanwhile", "goes on", "keep-alive probes", "of the server"],
)
def test_counts_retransmissions_that_are_never_acknowledged(
    packets: list[Packet], unacknowledged: tuple[int, int] | None
) -> None:
    end_event = reassemble([*HANDSHAKE, *packets])[-1]
    assert isinstance(end_event, FlowEnded)
    assert end_event.unacknowledged == unacknowledged
