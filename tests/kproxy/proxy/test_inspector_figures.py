"""The figures that the inspector sends back through the tap's socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.inspector_figures import MAX_BYTES, FiguresReader, FiguresWriter
from kproxy.proxy.tap import Tap
from tests.kproxy.proxy.peers import until


@pytest.fixture
def socket_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    relay, inspector = socket.socketpair()
    relay.setblocking(False)
    inspector.setblocking(False)
    with relay, inspector:
        yield relay, inspector


@given(st.lists(st.binary(max_size=50), min_size=1), st.integers(1, 30))
def test_reader_keeps_the_last_complete_text_however_the_stream_is_cut(texts: list[bytes], step: int) -> None:
    reader = FiguresReader()
    reader.begin()
    stream = b"".join(struct.pack(">I", len(text)) + text for text in texts) + b"\0\0\1\0begun"
    for start in range(0, len(stream), step):
        reader.receive(stream[start : start + step])
    assert reader.text == texts[-1]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_arbitrary_bytes_use_bounded_memory_and_never_raise(first: bytes, second: bytes) -> None:
    reader = FiguresReader()
    reader.begin()
    reader.receive(struct.pack(">I", MAX_BYTES + 1) + first)
    reader.receive(second * 1000)
    assert reader.text == b""
    assert not reader._buffer


def test_new_inspector_resets_the_reader() -> None:
    reader = FiguresReader()
    reader.begin()
    reader.receive(struct.pack(">I", 3) + b"one" + b"\0\0")
    assert reader.text == b"one"
    reader.begin()
    assert (reader.text, reader.inspectors) == (b"", 2)
    reader.receive(struct.pack(">I", 3) + b"two")
    assert reader.text == b"two"


def test_writer_does_not_block_if_the_relay_does_not_read(socket_ends: tuple[socket.socket, socket.socket]) -> None:
    relay, inspector = socket_ends
    writer, reader = FiguresWriter(inspector), FiguresReader()
    reader.begin()
    assert writer.is_ready()
    writer.send(b"x" * 3_000_000)
    assert not writer.is_ready()
    while not writer.is_ready():
        reader.receive(relay.recv(65536))
    while len(reader.text) < 3_000_000:
        reader.receive(relay.recv(65536))
    writer.send(b"next")
    reader.receive(relay.recv(65536))
    assert reader.text == b"next"


async def test_tap_reads_figures_and_detects_a_lost_inspector_at_once() -> None:
    sock, inspector = socket.socketpair()
    reader = FiguresReader()
    tap = Tap(sock, node="n", figures=reader)
    loss_errors: list[OSError] = []
    with inspector:
        inspector.setblocking(False)
        tap.begin([], lambda active: None, loss_errors.append)
        writer = FiguresWriter(inspector)
        writer.send(b"figures 1\n")
        await until(lambda: reader.text == b"figures 1\n")
        assert not tap.lost
    await until(lambda: tap.lost)  # although nothing was relayed
    assert len(loss_errors) == 1
    assert await tap.close(0, 0, 0, within=1) is False
    await asyncio.sleep(0)
