"""The forwarder records exactly the bytes that it relays."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.peers.forwarder import Forwarder, Stream
from tests.peers.processes import until


@pytest.fixture
def connected() -> Iterator[tuple[Forwarder, socket.socket, socket.socket]]:
    """Yield a forwarder, and a client and a server that are connected through it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        forwarder = Forwarder(listener.getsockname())
        with socket.create_connection(forwarder.address) as client, listener.accept()[0] as server:
            yield forwarder, client, server
            forwarder.close()


def test_both_directions_are_recorded_and_a_half_close_is_forwarded(
    connected: tuple[Forwarder, socket.socket, socket.socket],
) -> None:
    forwarder, client, server = connected
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    assert server.recv(64, socket.MSG_WAITALL) == b"question"
    server.sendall(b"answer")
    server.close()
    assert client.recv(64, socket.MSG_WAITALL) == b"answer"
    until("both directions have ended", forwarder.all_closed)
    [connection] = forwarder.connections
    assert (bytes(connection.requests.data), bytes(connection.responses.data)) == (b"question", b"answer")
    assert connection.peer == client.getsockname()


def test_data_after_the_client_disconnects_is_recorded(
    connected: tuple[Forwarder, socket.socket, socket.socket],
) -> None:
    forwarder, client, server = connected
    client.sendall(b"question")
    client.close()
    assert server.recv(64, socket.MSG_WAITALL) == b"question"
    for _ in range(3):
        server.sendall(bytes(100_000))
    server.close()
    until("both directions have ended", forwarder.all_closed)
    assert len(forwarder.connections[0].responses.data) == 300_000


def test_stream_is_split_into_frames_at_length_prefixes() -> None:
    complete_frames = bytes([0, 0, 0, 2, 65, 66]) + bytes(4)
    assert Stream(bytearray(complete_frames + bytes([0, 0, 0, 9, 1]))).frames() == [(0, 6), (6, 4)]
