"""Compare the relay, with TLS on both sides, with HAProxy in the same role and with a direct TLS connection.

A round has a stream of Produce requests on one connection, then round trips, then new connections one after another.

    python benchmarks/relay_tls.py [--rounds 8] [--mib 64] [--trips 500] [--handshakes 50]

All are measured in turn; medians are shown. Client and upstream use Python's ssl and also take CPU, so the CPU time of
the relay itself (user and system, for 1 MB, a round trip and a connection) says more than throughput.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import socket
import ssl
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from relay import command, free_port
from relay_load import MIB_OF_FRAMES, SMALL_FRAME, cpu_seconds, process

from kproxy.development_ca import certificates, store
from kproxy.proxy.address import TcpAddress
from kproxy.proxy.listener import Listener
from kproxy.proxy.loop import run
from kproxy.proxy.relay import serve
from kproxy.proxy.tls.contexts import TlsPolicy, client_context, server_context

ECHO, SINK = b"e", b"s"


def upstream(ready: Connection, ca: Path) -> None:
    """Echo all data, or discard it and confirm its end; the first byte selects which."""
    context = server_context(ca / "cert.pem", ca / "key.pem")
    context.sslobject_class = ssl.SSLObject
    context.sni_callback = None
    buffer = bytearray(1 << 20)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener_socket:
        ready.send(listener_socket.getsockname()[1])
        while True:
            plain, _ = listener_socket.accept()
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                with context.wrap_socket(plain, server_side=True) as sock:
                    mode = sock.recv(1)
                    while size := sock.recv_into(buffer):
                        if mode == ECHO:
                            sock.sendall(memoryview(buffer)[:size])
                        elif buffer[size - 1] == 1:  # the last frame
                            sock.sendall(b"x")
            except OSError:
                pass


def kproxy(ready: Connection, port: int, ca: Path) -> None:
    async def main() -> None:
        policy = TlsPolicy(server_context(ca / "cert.pem", ca / "key.pem"), client_context(ca / "ca.pem"), "localhost")
        listener = Listener(TcpAddress("127.0.0.1", 0), TcpAddress("127.0.0.1", port), policy)
        async with serve([listener]) as relay:
            ready.send(int(relay.addresses[0].rpartition(":")[2]))
            await asyncio.Event().wait()

    run(main())


class Contender:
    """A measured relay; `figures` has a value for each round, by figure."""

    def __init__(self, name: str, port: int, pid: int, ca: Path) -> None:
        self.name = name
        self.port = port
        self.pid = pid
        self.figures: dict[str, list[float]] = defaultdict(list)
        self._context = ssl.create_default_context(cafile=ca / "ca.pem")

    def connect(self, mode: bytes) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = self._context.wrap_socket(plain, server_hostname="localhost")
        sock.sendall(mode)
        return sock

    def measure(self, figure: str, run: Callable[[], None], amount: float) -> None:
        cpu, started = cpu_seconds(self.pid), time.perf_counter()
        run()
        self.figures[figure].append((time.perf_counter() - started) / amount)
        self.figures[figure + " CPU"].append((cpu_seconds(self.pid) - cpu) / amount)

    def run_round(self, mib: int, trips: int, handshakes: int) -> None:
        with self.connect(SINK) as sock:

            def produce() -> None:
                for _ in range(mib):
                    sock.sendall(MIB_OF_FRAMES)
                sock.sendall(b"\1")
                sock.recv(1)

            self.measure("MB", produce, mib * len(MIB_OF_FRAMES) / 1e6)
        with self.connect(ECHO) as sock:

            def echo() -> None:
                for _ in range(trips):
                    sock.sendall(SMALL_FRAME)
                    sock.recv(len(SMALL_FRAME))

            self.measure("trip", echo, trips)

        def shake_hands() -> None:
            for _ in range(handshakes):
                with self.connect(ECHO) as sock:
                    sock.sendall(b"x")
                    sock.recv(1)

        self.measure("connection", shake_hands, handshakes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--trips", type=int, default=500)
    parser.add_argument("--handshakes", type=int, default=50)
    args = parser.parse_args()
    with ExitStack() as stack:
        ca = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store.save(ca, certificates.create(["localhost"], 1))
        port, pid = stack.enter_context(process(upstream, ca))
        contenders = [Contender("direct", port, pid, ca)]
        contenders.append(Contender("kproxy", *stack.enter_context(process(kproxy, port, ca)), ca))
        if haproxy := shutil.which("haproxy"):
            own_port = free_port()
            (ca / "both.pem").write_bytes((ca / "cert.pem").read_bytes() + (ca / "key.pem").read_bytes())
            config = ca / "haproxy.cfg"
            config.write_text(
                "global\n nbthread 1\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n"
                " timeout server 1h\n"
                f"listen relay\n bind 127.0.0.1:{own_port} ssl crt {ca}/both.pem\n"
                f" server broker 127.0.0.1:{port} ssl verify required ca-file {ca}/ca.pem sni str(localhost)"
                " no-ssl-reuse\n"
            )
            contenders.append(
                Contender("HAProxy", *stack.enter_context(command(own_port, haproxy, "-db", "-f", str(config))), ca)
            )
        for _ in range(args.rounds):
            for contender in contenders:
                contender.run_round(args.mib, args.trips, args.handshakes)
    print(f"{'':10}{'Produce':>12}{'CPU':>14}{'round trip':>14}{'CPU':>10}{'connection':>14}{'CPU':>10}")
    for contender in contenders:
        figures = {name: statistics.median(values) for name, values in contender.figures.items()}
        cells = f"{1 / figures['MB']:7.0f} MB/s{figures['MB CPU'] * 1e3:8.2f} ms/MB{figures['trip'] * 1e6:11.0f} µs"
        cells += f"{figures['trip CPU'] * 1e6:7.0f} µs{figures['connection'] * 1e3:11.2f} ms"
        print(f"{contender.name:10}{cells}{figures['connection CPU'] * 1e3:7.2f} ms")


if __name__ == "__main__":
    main()
