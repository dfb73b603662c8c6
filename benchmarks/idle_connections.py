"""Compare the memory of idle connections in kproxy and HAProxy, both with four listeners.

    python benchmarks/idle_connections.py [--connections 10000] [--seconds 10]

Each connection has one round trip of ApiVersions and is then idle, like most connections of Kafka clients. Memory is
the difference in a process (Pss) between all connections and none; kproxy has two processes, the relay and the
inspector. The kernel's memory for sockets is not included because it is the same for all. CPU is the share of one core
while all connections are idle. The limit of open files must exceed twice the number of connections; it is raised if
possible.
"""

from __future__ import annotations

import argparse
import re
import resource
import selectors
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from relay_load import process

from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey
from dissectors.wire.encode import encode
from kproxy.development_ca import certificates, store

LISTENERS = 4
#: Descriptors of a process other than those of its connections.
SPARE = 200
VERSION = 3


def _frame(name: str, fields: dict[str, object]) -> bytes:
    layouts = api_layouts(ApiKey.API_VERSIONS, VERSION)
    assert layouts is not None
    header, body = (
        (layouts.request_header, layouts.request) if name == "request" else (layouts.response_header, layouts.response)
    )
    start = {"request_api_key": ApiKey.API_VERSIONS, "request_api_version": VERSION, "client_id": "idle"}
    whole = encode(header, {"correlation_id": 7, **(start if name == "request" else {})}) + encode(body, fields)
    return struct.pack(">i", len(whole)) + whole


REQUEST = _frame("request", {"client_software_name": "idle", "client_software_version": "1"})
RESPONSE = _frame("response", {"api_keys": [{"api_key": key, "max_version": 3} for key in range(60)]})


def upstream(ready: Connection) -> None:
    """Answer every request with RESPONSE, on a port for each listener."""
    selector = selectors.DefaultSelector()
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=1000) for _ in range(LISTENERS)]
    for sock in listeners:
        selector.register(sock, selectors.EVENT_READ, True)
    ready.send([sock.getsockname()[1] for sock in listeners])
    while True:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            if key.data:
                selector.register(key.fileobj.accept()[0], selectors.EVENT_READ, False)
            elif key.fileobj.recv(4096):
                key.fileobj.sendall(RESPONSE)
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()


@contextmanager
def kproxy(ports: Sequence[int], directory: Path, *options: str) -> Iterator[tuple[list[int], list[int]]]:
    """Run kproxy with a listener for each upstream port; yield its ports and the process ids of relay and inspector."""
    addresses = [option for port in ports for option in ("--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{port}")]
    child = subprocess.Popen(
        [sys.executable, "-m", "kproxy", *addresses, "--quiet", "--no-control", *options],
        cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stderr is not None
        matches = [re.match(r"listening on 127\.0\.0\.1:(\d+)", child.stderr.readline()) for _ in ports]
        [spawner] = _children(child.pid)
        while not (inspector := _children(spawner)):
            time.sleep(0.1)
        yield [int(match[1]) for match in matches if match], [child.pid, *inspector]
    finally:
        child.terminate()
        child.communicate()


@contextmanager
def haproxy(
    ports: Sequence[int], directory: Path, connections: int, tls: Path | None
) -> Iterator[tuple[list[int], list[int]]]:
    """Run HAProxy in the same way, with one thread."""
    own_ports = [_free_port() for _ in ports]
    certificate = "" if tls is None else f" ssl crt {tls}"
    listens = "".join(
        f"listen relay{port}\n bind 127.0.0.1:{port}{certificate}\n server broker 127.0.0.1:{to}\n"
        for port, to in zip(own_ports, ports, strict=True)
    )
    config = directory / "haproxy.cfg"
    config.write_text(
        f"global\n nbthread 1\n maxconn {connections + 20}\ndefaults\n mode tcp\n maxconn {connections + 20}\n"
        f" timeout connect 60s\n timeout client 1h\n timeout server 1h\n{listens}"
    )
    child = subprocess.Popen(["haproxy", "-db", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield own_ports, [child.pid]
    finally:
        child.terminate()
        child.wait()


def connect(port: int, client_context: ssl.SSLContext | None) -> socket.socket:
    """Open a connection, and return it after one round trip."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    if client_context is not None:
        sock = client_context.wrap_socket(sock, server_hostname="localhost")
    sock.sendall(REQUEST)
    received = 0
    while received < len(RESPONSE):
        received += len(sock.recv(4096)) or sys.exit("a connection was closed")
    return sock


def memory(pid: int) -> int:
    """Return the bytes of private memory, with a proportional share of shared pages."""
    match = re.search(r"^Pss: +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert match is not None
    return 1024 * int(match[1])


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads."""
    return sum(int(path.read_text().split()[0]) / 1e9 for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


@dataclass
class Figures:
    """Figures of one process: bytes per connection, bytes without connections, and the share of a core."""

    per_connection: float
    baseline: int
    cpu: float


def measure(
    ports: Sequence[int], pids: Sequence[int], connections: int, seconds: float, client_context: ssl.SSLContext | None
) -> list[Figures]:
    with ExitStack() as stack:
        for number in range(4 * LISTENERS):  # exclude memory that the first connections cause once
            connect(ports[number % LISTENERS], client_context).close()
        time.sleep(3)
        memory_before = [memory(pid) for pid in pids]
        for number in range(connections):
            stack.enter_context(connect(ports[number % LISTENERS], client_context))
        time.sleep(3)  # let the inspector catch up
        cpu = [cpu_seconds(pid) for pid in pids]
        time.sleep(seconds)
        cpu_used = [cpu_seconds(pid) - start for pid, start in zip(pids, cpu, strict=True)]
        return [
            Figures((memory(pid) - start) / connections, start, share / seconds)
            for pid, start, share in zip(pids, memory_before, cpu_used, strict=True)
        ]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _raise_limit(connections: int) -> None:
    needed = 2 * connections + SPARE
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, hard)))
    except (ValueError, PermissionError):
        sys.exit(f"{connections} connections need {needed} open files; the limit is {hard} (ulimit -Hn)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10, help="for CPU")
    args = parser.parse_args()
    _raise_limit(args.connections)
    print(f"{args.connections} connections, {LISTENERS} listeners")
    print(f"{'':24}{'process':12}{'connection':>14}{'empty':>12}{'CPU':>10}")
    with process(upstream) as (ports, _), tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        store.save(directory, certificates.create(["localhost"], 1))
        certificate, key = directory / "cert.pem", directory / "key.pem"
        (directory / "both.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
        client_context = ssl.create_default_context(cafile=directory / "ca.pem")
        tls_options = ("--tls-cert", str(certificate), "--tls-key", str(key))
        contenders = [
            ("kproxy", kproxy(ports, directory), None),
            ("kproxy --advertise", kproxy(ports, directory, "--advertise"), None),
            ("kproxy, TLS", kproxy(ports, directory, *tls_options), client_context),
        ]
        if shutil.which("haproxy"):
            contenders += [
                ("HAProxy", haproxy(ports, directory, args.connections, None), None),
                ("HAProxy, TLS", haproxy(ports, directory, args.connections, directory / "both.pem"), client_context),
            ]
        for name, contender, context in contenders:
            with contender as (listen_ports, pids):
                figures = measure(listen_ports, pids, args.connections, args.seconds, context)
            for process_name, process_figures in zip(("relay", "inspector"), figures, strict=False):
                print(
                    f"{name:24}{process_name:12}{process_figures.per_connection / 1024:10.1f} KiB"
                    f"{process_figures.baseline / 2**20:8.1f} MiB{process_figures.cpu:10.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
