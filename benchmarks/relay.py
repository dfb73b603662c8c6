"""Compare the relay with a direct connection, HAProxy, nginx, socat and asyncio's streams, on one loopback connection.

A round relays a stream of unanswered frames, Produce requests of 100 kB with five in flight, Fetch responses of 1 MB
one after another, and round trips of 100 bytes, which the upstream echoes at once (trip) or after as much work as a
broker would do (answer).

    python benchmarks/relay.py [--rounds 12] [--mib 128] [--trips 1000] [--only TEXT]... [--checkout DIRECTORY]...

All are measured in turn, round after round, so that other load affects all of them. Programs that are not installed are
left out. CPU is the relay's own user and system time per MB or round trip; it is unknown for programs that fork. Ratios
are computed for each round: the median and the interquartile range are shown.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from relay_load import Contender, process, upstream

from kproxy.proxy.address import TcpAddress
from kproxy.proxy.advertised_listeners import Advertise
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.loop import run
from kproxy.proxy.relay import serve
from kproxy.proxy.tap import Tap

#: Debian's packages have the stream module in a separate file.
_STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
NGINX_STREAM = f"load_module {_STREAM_MODULE};\n" if _STREAM_MODULE.exists() else ""
FIGURES = ("stream", "Produce", "Fetch", "trip", "answer")
TRIPS = ("trip", "answer")
#: A program that runs the relay of any checkout, even one from before --advertise.
RELAY = """
import asyncio, sys
from kproxy.proxy.address import TcpAddress
from kproxy.proxy.loop import run
from kproxy.proxy.relay import Listener, serve

async def main():
    options = {}
    if "--advertise" in sys.argv:
        from kproxy.proxy.advertised_listeners import Advertise
        from kproxy.proxy.interception import Rewriting
        options = {"rewriting": Rewriting(Advertise())}
    listener = Listener(TcpAddress("127.0.0.1", 0), TcpAddress("127.0.0.1", int(sys.argv[1])))
    async with serve([listener], **options) as relay:
        print(relay.addresses[0].rpartition(":")[2], flush=True)
        await asyncio.Event().wait()

run(main())
"""


def discard(sock: socket.socket) -> None:
    """Act as an inspector that reads and discards everything."""
    buffer = bytearray(1 << 20)
    while sock.recv_into(buffer):
        pass


def sleep(_sock: socket.socket) -> None:
    """Act as an inspector that reads nothing."""
    time.sleep(3600)


@contextmanager
def inspector(target: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """Run an inspector; yield the socket that a tap may write to."""
    relay_end, inspector_end = socket.socketpair()
    child = multiprocessing.Process(target=target, args=(inspector_end,))
    child.start()
    with relay_end, inspector_end:
        yield relay_end
    child.terminate()
    child.join()


def kproxy(
    ready: Connection,
    port: int,
    tap_socket: socket.socket | None,
    rewriting: Rewriting = Rewriting(),  # noqa: B008
) -> None:
    async def main() -> None:
        tap = Tap(tap_socket, node="benchmark") if tap_socket else None
        listener = Listener(TcpAddress("127.0.0.1", 0), TcpAddress("127.0.0.1", port))
        async with serve([listener], tap=tap, rewriting=rewriting) as relay:
            ready.send(int(relay.addresses[0].rpartition(":")[2]))
            await asyncio.Event().wait()

    run(main())


def streams(ready: Connection, port: int) -> None:
    """Run the obvious implementation: asyncio's streams, and a task for each direction."""

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
def command(port: int, *words: str) -> Iterator[tuple[int, int]]:
    """Run a program that listens on `port`."""
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield port, child.pid
    finally:
        child.terminate()
        child.wait()


@contextmanager
def command_line(directory: Path, port: int) -> Iterator[tuple[int, int]]:
    """Run kproxy as users do, with its inspector."""
    words = ("--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{port}", "--no-trace", "--no-control", "--quiet")
    program = (sys.executable, "-m", "kproxy", *words)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(program, cwd=directory, text=True, **quiet) as child:
        assert child.stderr is not None
        yield int(child.stderr.readline().partition(" -> ")[0].rpartition(":")[2]), child.pid
        child.terminate()


@contextmanager
def relay_of(tree: Path, port: int, *options: str) -> Iterator[tuple[int, int]]:
    """Run the relay of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve())}
    words = (sys.executable, "-P", "-c", RELAY, str(port), *options)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline()), child.pid
        child.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def contenders(stack: ExitStack, directory: Path, checkouts: list[Path], only: list[str]) -> list[Contender]:
    port, pid = stack.enter_context(process(upstream))
    contenders = [Contender("direct", port, pid)]

    def add(name: str, run: Callable[[], AbstractContextManager[tuple[int, int]]]) -> None:
        if any(text in name for text in only):
            contenders.append(Contender(name, *stack.enter_context(run())))

    def run_tapped(target: Callable[[socket.socket], None]) -> AbstractContextManager[tuple[int, int]]:
        return process(kproxy, port, stack.enter_context(inspector(target)))

    add("kproxy, no tap", lambda: process(kproxy, port, None))
    add("kproxy, no tap, --advertise", lambda: process(kproxy, port, None, Rewriting(Advertise())))
    add("kproxy, inspector reads all", lambda: run_tapped(discard))
    add("kproxy, inspector is stuck", lambda: run_tapped(sleep))
    add("kproxy --no-trace", lambda: command_line(directory, port))
    add("asyncio streams", lambda: process(streams, port))
    for tree in checkouts:
        add(f"kproxy of {tree.name}", partial(relay_of, tree, port))
        if (tree / "kproxy/proxy/interception.py").exists():
            add(f"kproxy of {tree.name}, --advertise", partial(relay_of, tree, port, "--advertise"))
    if haproxy := shutil.which("haproxy"):
        own_port = free_port()
        config = directory / "haproxy.cfg"
        config.write_text(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n"
            f"listen relay\n bind 127.0.0.1:{own_port}\n server broker 127.0.0.1:{port}\n"
        )
        add("HAProxy", lambda: command(own_port, haproxy, "-db", "-f", str(config)))
    if nginx := shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"):
        own_port = free_port()
        config = directory / "nginx.conf"
        config.write_text(
            f"{NGINX_STREAM}daemon off; master_process off; pid {directory}/nginx.pid; error_log /dev/null;\n"
            "events {}\n"
            f"stream {{ server {{ listen 127.0.0.1:{own_port}; proxy_pass 127.0.0.1:{port}; tcp_nodelay on; }} }}\n"
        )
        add("nginx", lambda: command(own_port, nginx, "-c", str(config), "-e", "/dev/null"))
    if socat := shutil.which("socat"):
        own_port = free_port()
        listening = f"TCP-LISTEN:{own_port},bind=127.0.0.1,fork,reuseaddr,nodelay"
        add("socat", lambda: command(own_port, socat, listening, f"TCP:127.0.0.1:{port},nodelay"))
    return contenders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--mib", type=int, default=128, help="sent through in one go, about that many MiB")
    parser.add_argument("--trips", type=int, default=1000, help="round trips of 100 bytes")
    parser.add_argument("--only", action="append", metavar="TEXT", help="contenders whose name contains this")
    parser.add_argument("--checkout", action="append", default=[], type=Path, help="also the plain relay of this tree")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measured = contenders(stack, directory, args.checkout, args.only or [""])
        for number in range(args.rounds):
            for contender in measured if number % 2 else measured[::-1]:
                contender.measure(args.mib, args.trips)
    print_figures(measured)
    print_ratios(measured)


def print_figures(contenders: list[Contender]) -> None:
    print(f"{'':34}" + "".join(f"{figure:>11}{'CPU':>8}" for figure in FIGURES))
    for contender in contenders:
        cells = ""
        for figure in FIGURES:
            value, cpu = (statistics.median(contender.figures[figure + suffix]) for suffix in ("", " CPU"))
            cells += f"{value * 1e6:8.0f} µs" if figure in TRIPS else f"{1 / value:6.0f} MB/s"
            cells += f"{cpu * 1e6:5.0f} µs" if contender.name not in ("direct", "socat") else f"{'':8}"
        print(f"{contender.name:34}{cells}")


def print_ratios(contenders: list[Contender]) -> None:
    """Print speed and CPU relative to the first relay: median and interquartile range of the rounds' ratios."""
    direct, reference, *other_contenders = contenders
    print("\nTime of a round trip, compared with direct:")
    for contender in contenders[1:]:
        times = (ratios(contender.figures[figure], direct.figures[figure]) for figure in TRIPS)
        print(
            f"{contender.name:34}"
            + "".join(f"{figure:>10}{time_ratio}" for figure, time_ratio in zip(TRIPS, times, strict=True))
        )
    print(f"\nSpeed and CPU, compared with {reference.name}:")
    for contender in other_contenders:
        cells = ""
        for figure in FIGURES:
            speeds = ratios(reference.figures[figure], contender.figures[figure])
            cpu = ratios(contender.figures[figure + " CPU"], reference.figures[figure + " CPU"])
            cells += f"{figure:>10}{speeds}{cpu if contender.name != 'socat' else ''}"
        print(f"{contender.name:34}{cells}")


def ratios(numerators: list[float], denominators: list[float]) -> str:
    low, middle, high = statistics.quantiles(
        (numerator / denominator for numerator, denominator in zip(numerators, denominators, strict=True)), n=4
    )
    return f"{middle:6.2f} ({low:.2f}-{high:.2f})"


if __name__ == "__main__":
    main()
