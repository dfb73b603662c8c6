"""The load for `relay.py`: an upstream, and clients that measure one connection to it over loopback."""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey
from dissectors.wire.encode import encode

#: Produce v0 without a body: it gets no response, and its content does not matter.
FRAME = struct.pack(">i", 100_000) + bytes(100_000)
MIB_OF_FRAMES = 10 * FRAME
SMALL_FRAME = struct.pack(">i", 100) + bytes(100)
#: The first frame of a connection tells the upstream what to do.
ECHO, SINK, PRODUCE, FETCH, ANSWER = (struct.pack(">i", 1) + mode for mode in (b"e", b"s", b"p", b"f", b"a"))
WORK_S = 70e-6  # a broker's computing time before it answers; over loopback, a bare echo is faster than any relay
IN_FLIGHT = 5  # Produce requests, as with Kafka's Java client


@contextmanager
def process(target: Callable[..., None], *args: object) -> Iterator[tuple[Any, int]]:
    """Run a function in a child process; yield the first object that it sends, such as its port, and its process id."""
    ready, child_end = multiprocessing.Pipe()
    child = multiprocessing.Process(target=target, args=(child_end, *args))
    child.start()
    try:
        yield ready.recv(), child.pid or 0
    finally:
        child.terminate()
        child.join()


def _request(key: ApiKey, version: int, body: dict[str, object]) -> bytes:
    layouts = api_layouts(key, version)
    assert layouts is not None
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 7, "client_id": "producer-1"}
    content = encode(layouts.request_header, header) + encode(layouts.request, body)
    return struct.pack(">i", len(content)) + content


def _response(key: ApiKey, version: int, body: dict[str, object]) -> bytes:
    layouts = api_layouts(key, version)
    assert layouts is not None
    content = encode(layouts.response_header, {"correlation_id": 7}) + encode(layouts.response, body)
    return struct.pack(">i", len(content)) + content


#: These versions may have addresses in their responses (`node_endpoints`), so --advertise must read them.
PRODUCE_REQUEST = _request(
    ApiKey.PRODUCE,
    12,
    {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": bytes(100_000)}]}]},
)
PRODUCE_RESPONSE = _response(
    ApiKey.PRODUCE, 12, {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 1}]}]}
)
FETCH_REQUEST = _request(ApiKey.FETCH, 17, {})
FETCH_RESPONSE = _response(
    ApiKey.FETCH,
    17,
    {"responses": [{"partitions": [{"partition_index": index, "records": bytes(100_000)} for index in range(10)]}]},
)


def upstream(ready: Connection) -> None:
    """Echo data at once or after some work, answer each request, or discard all data and confirm its end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ready.send(listener.getsockname()[1])
        buffer = bytearray(1 << 20)
        while True:
            sock, _ = listener.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                mode = sock.recv(len(ECHO), socket.MSG_WAITALL)
                while mode == PRODUCE and sock.recv_into(buffer, len(PRODUCE_REQUEST), socket.MSG_WAITALL):
                    sock.sendall(PRODUCE_RESPONSE)
                while mode == FETCH and sock.recv(len(FETCH_REQUEST), socket.MSG_WAITALL):
                    sock.sendall(FETCH_RESPONSE)
                while size := sock.recv_into(buffer):
                    if mode == ANSWER:
                        end = time.perf_counter() + WORK_S
                        while time.perf_counter() < end:
                            pass
                    if mode in (ECHO, ANSWER):
                        sock.sendall(buffer[:size])
                sock.sendall(b"x")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads, user and system."""
    return sum(int(path.read_text().split()[0]) / 1e9 for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def connect(port: int, mode: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(mode)
    return sock


@dataclass
class Contender:
    """A measured program that listens on `port`; `pid` is the process whose CPU time counts.

    `figures` has one value for each round: seconds per MB for ``stream``, ``Produce`` and ``Fetch``, or per round trip
    for ``trip`` and ``answer`` (the median of a round); and the CPU seconds, with the suffix `` CPU``.
    """

    name: str
    port: int
    pid: int
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, mib: int, trips: int) -> None:
        """Measure one round."""
        for figure, run, amount in (
            ("stream", self._stream, mib),
            ("Produce", self._produce, mib),
            ("Fetch", self._fetch, mib),
            ("trip", partial(self._trips, ECHO), trips),
            ("answer", partial(self._trips, ANSWER), trips),
        ):
            cpu = cpu_seconds(self.pid)
            self.figures[figure].append(run(amount))
            self.figures[figure + " CPU"].append((cpu_seconds(self.pid) - cpu) / amount)

    def _stream(self, mib: int) -> float:
        with connect(self.port, SINK) as sock:
            started = time.perf_counter()
            for _ in range(mib):
                sock.sendall(MIB_OF_FRAMES)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(1)
            return (time.perf_counter() - started) / mib

    def _produce(self, mib: int) -> float:
        with connect(self.port, PRODUCE) as sock:
            started = time.perf_counter()
            for number in range(10 * mib):
                sock.sendall(PRODUCE_REQUEST)
                if number >= IN_FLIGHT - 1:
                    sock.recv(len(PRODUCE_RESPONSE), socket.MSG_WAITALL)
            for _ in range(IN_FLIGHT - 1):
                sock.recv(len(PRODUCE_RESPONSE), socket.MSG_WAITALL)
            return (time.perf_counter() - started) / mib

    def _fetch(self, mib: int) -> float:
        with connect(self.port, FETCH) as sock:
            buffer = memoryview(bytearray(len(FETCH_RESPONSE)))
            started = time.perf_counter()
            for _ in range(mib):
                sock.sendall(FETCH_REQUEST)
                sock.recv_into(buffer, len(buffer), socket.MSG_WAITALL)
            return (time.perf_counter() - started) / mib

    def _trips(self, mode: bytes, trips: int) -> float:
        times = []
        with connect(self.port, mode) as sock:
            for _ in range(trips):
                started = time.perf_counter()
                sock.sendall(SMALL_FRAME)
                sock.recv(len(SMALL_FRAME), socket.MSG_WAITALL)
                times.append(time.perf_counter() - started)
        return statistics.median(times)
