"""The cost of being watched: a proxy without a control socket, with one, and with a viewer that gets every frame.

    python benchmarks/control.py [--rounds 5] [--seconds 2] [--rate 5000]

All three run at the same time and are loaded in turn, round after round, at a fixed rate and at full speed: Heartbeats
over one connection, answered by a process that does nothing else. CPU is the user and system time of the relay's and
the inspector's process, per frame: medians, and the ratios to the proxy without a socket.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from relay_load import cpu_seconds, process

from dissectors.messages.message import api_layouts
from dissectors.wire.encode import encode
from kproxy.control.client import connect
from kproxy.control.paths import find

HEARTBEAT, VERSION = 12, 3
IDS = 20_000
WINDOW = 20
FULL_LOAD_S = 0.3  # with more, the inspector would have too much to catch up on


def frames(answers: bool) -> bytes:
    """Return `IDS` requests or their responses, all of the same size."""
    layouts = api_layouts(HEARTBEAT, VERSION)
    assert layouts is not None
    content = bytearray()
    for number in range(IDS):
        head = {
            "request_api_key": HEARTBEAT,
            "request_api_version": VERSION,
            "correlation_id": number,
            "client_id": "c",
        }
        data = encode(layouts.response_header if answers else layouts.request_header, head)
        data += encode(layouts.response if answers else layouts.request, {"group_id": "group", "member_id": "member-1"})
        content += len(data).to_bytes(4, "big") + data
    return bytes(content)


REQUESTS, ANSWERS = frames(False), frames(True)
REQUEST, ANSWER = len(REQUESTS) // IDS, len(ANSWERS) // IDS


def upstream(ready: Connection) -> None:
    """Answer all requests that have arrived, one connection at a time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ready.send(listener.getsockname()[1])
        while True:
            sock, _ = listener.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                received = answered = 0
                while data := sock.recv(1 << 16):
                    received += len(data)
                    arrived = received // REQUEST
                    while answered < arrived:
                        start = answered % IDS
                        end = min(start + arrived - answered, IDS)
                        sock.sendall(ANSWERS[start * ANSWER : end * ANSWER])
                        answered += end - start


@dataclass
class Contender:
    name: str
    port: int
    pids: dict[str, int]
    rate: list[float] = field(default_factory=list)  # frames/s at full speed
    cpu: dict[str, list[float]] = field(default_factory=dict)  # µs per frame


@contextmanager
def kproxy(name: str, port: int, directory: Path, *options: str) -> Iterator[Contender]:
    command = [sys.executable, "-m", "kproxy", "--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{port}", "-q"]
    child = subprocess.Popen(
        [*command, "--trace", str(directory), *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    match = re.search(r"127\.0\.0\.1:(\d+) ->", child.stderr.readline())
    assert match is not None
    inspector = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()[0]
    try:
        yield Contender(name, int(match[1]), {"relay": child.pid, "inspector": int(inspector)})
    finally:
        child.terminate()
        child.communicate()


def view(ready: Connection, port: int, spool: Path) -> None:
    """Write every line with its frame to a file, as a viewer does."""

    async def main() -> None:
        proxy = await asyncio.to_thread(find, str(port))
        async with connect(proxy.path) as client:
            await client.request("watch", frames=True, backlog=True)
            ready.send(0)
            with spool.open("wb") as file:
                async for line in client:
                    file.write(line)

    asyncio.run(main())


def load(contender: Contender, seconds: float, rate: float | None) -> float:
    """Exchange frames for `seconds`, at `rate` frames/s or at full speed; return the achieved rate in frames/s."""
    with socket.create_connection(("127.0.0.1", contender.port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count = WINDOW if rate is None else max(1, round(rate / 2 / 100))
        frames_exchanged = position = 0
        started = time.perf_counter()
        while (now := time.perf_counter() - started) < seconds:
            if rate is not None and frames_exchanged / rate > now:
                time.sleep(frames_exchanged / rate - now)
            if position + count > IDS:
                position = 0
            sock.sendall(REQUESTS[position * REQUEST : (position + count) * REQUEST])
            sock.recv(count * ANSWER, socket.MSG_WAITALL)
            position += count
            frames_exchanged += 2 * count
        return frames_exchanged / (time.perf_counter() - started)


def settle(contender: Contender) -> None:
    """Wait until the inspector has caught up."""
    cpu_used = 1.0
    while cpu_used > 0.02:
        cpu_before = cpu_seconds(contender.pids["inspector"])
        time.sleep(0.3)
        cpu_used = cpu_seconds(contender.pids["inspector"]) - cpu_before


def measure(contender: Contender, seconds: float, rate: float | None) -> None:
    cpu_before = {name: cpu_seconds(pid) for name, pid in contender.pids.items()}
    achieved_rate = load(contender, seconds, rate)
    if rate is None:
        contender.rate.append(achieved_rate)
    settle(contender)
    for name, pid in contender.pids.items():
        label = f"{name}, {'full load' if rate is None else 'at the rate'}"
        cpu_per_frame = (cpu_seconds(pid) - cpu_before[name]) / (achieved_rate * seconds) * 1e6
        contender.cpu.setdefault(label, []).append(cpu_per_frame)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=5000.0, help="frames a second, both ways together")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, _ = stack.enter_context(process(upstream))
        contenders = [
            stack.enter_context(kproxy(name, port, directory / str(number), *options))
            for number, (name, *options) in enumerate(
                (["no control socket", "--no-control"], ["control socket"], ["a viewer with frames"])
            )
        ]
        stack.enter_context(process(view, contenders[-1].port, directory / "spool.jsonl"))
        for _ in range(args.rounds):
            for contender in contenders:
                measure(contender, args.seconds, args.rate)
                measure(contender, FULL_LOAD_S, None)
        spool_bytes = (directory / "spool.jsonl").stat().st_size
    plain = contenders[0]
    print(f"{'':24}{'frames/s':>18}" + "".join(f"{label:>26}" for label in plain.cpu))
    for contender in contenders:
        row = f"{contender.name:24}{ratio(contender.rate, plain.rate, '')}"
        print(row + "".join(f"{ratio(contender.cpu[label], plain.cpu[label], ' µs'):>26}" for label in plain.cpu))
    print(f"the viewer wrote {spool_bytes / 1e6:.0f} MB")


def ratio(values: list[float], base: list[float], unit: str) -> str:
    value = statistics.median(values)
    return f"{value:10.1f}{unit} {value / statistics.median(base):6.2f}"


if __name__ == "__main__":
    main()
