"""Packets pasted as text, such as the output of tools, are reassembled into connections."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dissectors.hexdump import unhex_all
from kproxy.capture.links import ACK
from kproxy.capture.pasted_packets import tcp_connections
from tests.kproxy.capture.packets import ethernet, ipv4, ipv6, tcp
from tests.kproxy.frames import request, response

PASTED = Path(__file__).parents[2] / "data" / "pasted"
REQUEST = request("FindCoordinator", 0, {"key": "billing"}, client_id="app")


def test_tcpdump_output_yields_two_connections() -> None:
    connections = tcp_connections(unhex_all((PASTED / "tcpdump-X.txt").read_text()))
    assert connections is not None
    assert [[len(stream) for stream in connection.streams] for connection in connections] == [[26, 35], [26, 35]]
    assert [connection.streams[0] for connection in connections] == [REQUEST, REQUEST]


def test_accepts_packets_from_every_layer() -> None:
    segment = tcp(50001, 9092, 1, REQUEST, flags=ACK)
    for packet in (ipv4(segment), ipv6(segment), ethernet(ipv4(segment)), ethernet(ipv6(segment), 0x86DD)):
        assert tcp_connections([packet]) == [([REQUEST], None)]


def test_orders_segments_and_drops_retransmissions() -> None:
    segments = [tcp(50001, 9092, 1 + offset, REQUEST[offset : offset + 9]) for offset in range(0, len(REQUEST), 9)]
    packets = [ipv4(segment) for segment in (segments[0], segments[2], segments[1], segments[1])]
    assert tcp_connections(packets) == [([REQUEST], None)]


def test_bytes_sent_only_by_a_server_are_not_taken_for_a_request() -> None:
    server_bytes = response("FindCoordinator", 0, {"host": "b1.example.com", "port": 9092})
    server_only = tcp_connections([ipv4(tcp(9092, 50001, 1, server_bytes, flags=ACK))])
    assert server_only is not None
    assert [connection.streams for connection in server_only] == [[server_bytes]]
    assert [[address.rpartition(":")[2] for address in connection.lone_server or ()] for connection in server_only] == [
        ["9092", "50001"]
    ]
    [client_only] = tcp_connections([ipv4(tcp(9092, 50001, 1, REQUEST, flags=ACK))]) or []
    assert client_only.lone_server is None  # a client with a low port


def test_packets_without_payload_have_no_connection() -> None:
    assert tcp_connections([ipv4(tcp(50001, 9092, 1))]) == []


@given(st.binary(max_size=200))
def test_kafka_frames_are_not_taken_for_packets(body: bytes) -> None:
    for frame in (response("Fetch", 0, {})[:4] + body, REQUEST, body[:0]):
        assert tcp_connections([frame]) is None
