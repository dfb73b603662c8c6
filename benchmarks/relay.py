"""The relay against a direct connection, HAProxy, socat and asyncio's streams: one connection over loopback.

What goes through is a stream of Produce requests, then Fetch responses of 1 MB one after the other, then round trips.

    python benchmarks/relay.py [--rounds 12] [--mib 128] [--trips 1000]

All are measured in turn, round after round, so that a busy machine is busy for all of them; medians and ratios are
shown. Those that are not installed are left out. CPU is the relay's own, user and system, for a round trip; not
known of programs that fork.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from dissectors.messages.message import plan
from dissectors.schemas.codes import ApiKey
from dissectors.wire.encode import encode
from kproxy.proxy.address import TcpAddress
from kproxy.proxy.advertised_listeners import Advertise
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.loop import run
from kproxy.proxy.relay import serve
from kproxy.proxy.tap import Tap

FRAME = struct.pack(">i", 100_000) + bytes(100_000)
MIB_OF_FRAMES = 10 * FRAME
SMALL_FRAME = struct.pack(">i", 100) + bytes(100)
ECHO, SINK, FETCH = (struct.pack(">i", 1) + mode for mode in (b"e", b"s", b"f"))
FETCH_VERSION = 17  # has node_endpoints at its end
FETCH_REQUEST = struct.pack(">ihhi", 30, ApiKey.FETCH, FETCH_VERSION, 7) + bytes(22)


def fetch_response() -> bytes:
    """One with 1 MB of records in ten partitions, and no addresses."""
    known = plan(ApiKey.FETCH, FETCH_VERSION)
    assert known is not None
    partitions = [{"partition_index": index, "records": bytes(100_000)} for index in range(10)]
    body = encode(known.response, {"responses": [{"partitions": partitions}]})
    header = encode(known.response_header, {"correlation_id": 7})
    return struct.pack(">i", len(header + body)) + header + body


FETCH_RESPONSE = fetch_response()


def upstream(ready: Connection) -> None:
    """Echoes, answers each request, or swallows and says so at the end; the first frame tells which."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ready.send(listening.getsockname()[1])
        buffer = bytearray(1 << 20)
        while True:
            sock, _ = listening.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                mode = sock.recv(len(ECHO), socket.MSG_WAITALL)
                while mode == FETCH and sock.recv(len(FETCH_REQUEST), socket.MSG_WAITALL):
                    sock.sendall(FETCH_RESPONSE)
                while size := sock.recv_into(buffer):
                    if mode == ECHO:
                        sock.sendall(buffer[:size])
                sock.sendall(b"x")


def discard(sock: socket.socket) -> None:
    """An inspector that reads and does nothing with it."""
    buffer = bytearray(1 << 20)
    while sock.recv_into(buffer):
        pass


def sleep(_sock: socket.socket) -> None:
    """An inspector that reads nothing."""
    time.sleep(3600)


@contextmanager
def inspector(target: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """Run it; gives the socket that a tap may write to."""
    ours, theirs = socket.socketpair()
    child = multiprocessing.Process(target=target, args=(theirs,))
    child.start()
    with ours, theirs:
        yield ours
    child.terminate()
    child.join()


def kproxy(
    ready: Connection,
    port: int,
    tapped: socket.socket | None,
    rewriting: Rewriting = Rewriting(),  # noqa: B008
) -> None:
    async def main() -> None:
        tap = Tap(tapped, node="benchmark") if tapped else None
        listener = Listener(TcpAddress("127.0.0.1", 0), TcpAddress("127.0.0.1", port))
        async with serve([listener], tap=tap, rewriting=rewriting) as relay:
            ready.send(int(relay.addresses[0].rpartition(":")[2]))
            await asyncio.Event().wait()

    run(main())


def streams(ready: Connection, port: int) -> None:
    """What one writes first: asyncio's streams, and a task for each direction."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(256 * 1024):
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))
        upstream_writer.close()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def process(target: Callable[..., None], *args: object) -> Iterator[tuple[int, int]]:
    """Run it; gives the port that it reports, and its process id."""
    ready, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=target, args=(theirs, *args))
    child.start()
    try:
        yield ready.recv(), child.pid or 0
    finally:
        child.terminate()
        child.join()


@contextmanager
def command(port: int, *words: str) -> Iterator[tuple[int, int]]:
    """Run a program that listens on `port`."""
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield port, child.pid
    finally:
        child.terminate()
        child.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@dataclass
class Contender:
    name: str
    port: int
    pid: int
    throughput: list[float] = field(default_factory=list)  # MB/s
    fetching: list[float] = field(default_factory=list)  # MB/s
    trips: list[float] = field(default_factory=list)  # µs
    cpu: list[float] = field(default_factory=list)  # µs a round trip


def contenders(stack: ExitStack, directory: Path) -> list[Contender]:
    port, pid = stack.enter_context(process(upstream))
    found = [Contender("direct", port, pid)]

    def add(name: str, running: object) -> None:
        found.append(Contender(name, *stack.enter_context(running)))

    add("kproxy, no tap", process(kproxy, port, None))
    add("kproxy, no tap, --advertise", process(kproxy, port, None, Rewriting(Advertise())))
    add("kproxy, inspector reads all", process(kproxy, port, stack.enter_context(inspector(discard))))
    add("kproxy, inspector is stuck", process(kproxy, port, stack.enter_context(inspector(sleep))))
    add("asyncio streams", process(streams, port))
    if haproxy := shutil.which("haproxy"):
        own = free_port()
        config = directory / "haproxy.cfg"
        config.write_text(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n"
            f"listen relay\n bind 127.0.0.1:{own}\n server broker 127.0.0.1:{port}\n"
        )
        add("HAProxy", command(own, haproxy, "-db", "-f", str(config)))
    if socat := shutil.which("socat"):
        own = free_port()
        listening = f"TCP-LISTEN:{own},bind=127.0.0.1,fork,reuseaddr,nodelay"
        add("socat", command(own, socat, listening, f"TCP:127.0.0.1:{port},nodelay"))
    return found


def cpu_seconds(pid: int) -> float:
    """Of all threads."""
    return sum(int(path.read_text().split()[0]) / 1e9 for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def connect(port: int, mode: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(mode)
    return sock


def measure_throughput(contender: Contender, mib: int) -> None:
    with connect(contender.port, SINK) as sock:
        began = time.perf_counter()
        for _ in range(mib):
            sock.sendall(MIB_OF_FRAMES)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)
        contender.throughput.append(mib * len(MIB_OF_FRAMES) / 1e6 / (time.perf_counter() - began))


def measure_fetching(contender: Contender, responses: int) -> None:
    with connect(contender.port, FETCH) as sock:
        buffer = memoryview(bytearray(len(FETCH_RESPONSE)))
        began = time.perf_counter()
        for _ in range(responses):
            sock.sendall(FETCH_REQUEST)
            sock.recv_into(buffer, len(buffer), socket.MSG_WAITALL)
        contender.fetching.append(responses * len(FETCH_RESPONSE) / 1e6 / (time.perf_counter() - began))


def measure_trips(contender: Contender, trips: int) -> None:
    times = []
    with connect(contender.port, ECHO) as sock:
        cpu = cpu_seconds(contender.pid)
        for _ in range(trips):
            began = time.perf_counter()
            sock.sendall(SMALL_FRAME)
            sock.recv(len(SMALL_FRAME), socket.MSG_WAITALL)
            times.append(time.perf_counter() - began)
        contender.cpu.append((cpu_seconds(contender.pid) - cpu) / trips * 1e6)
    contender.trips.append(statistics.median(times) * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--mib", type=int, default=128, help="sent through in one go, about that many MiB")
    parser.add_argument("--trips", type=int, default=1000, help="round trips of 100 bytes")
    args = parser.parse_args()
    with ExitStack() as stack:
        found = contenders(stack, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for _ in range(args.rounds):
            for contender in found:
                measure_throughput(contender, args.mib)
                measure_fetching(contender, args.mib)
                measure_trips(contender, args.trips)
    direct = found[0]
    print(f"{'':32}{'Produce':>12}{'':>6}{'Fetch':>12}{'':>6}{'round trip':>12}{'':>6}{'CPU':>9}")
    for contender in found:
        cells = ""
        for unit, mine, its in (
            ("MB/s", contender.throughput, direct.throughput),
            ("MB/s", contender.fetching, direct.fetching),
            ("µs", contender.trips, direct.trips),
        ):
            figure = statistics.median(mine)
            cells += f"{figure:7.0f} {unit:4}{figure / statistics.median(its):6.2f}"
        known = contender.name not in ("direct", "socat")
        cpu = f"{statistics.median(contender.cpu):6.1f} µs" if known else ""
        print(f"{contender.name:32}{cells}{cpu:>9}")


if __name__ == "__main__":
    main()
