"""One inspector against several, without a relay: how fast the inspector's process takes recorded traffic.

    python benchmarks/inspectors.py [--exchanges 14000] [--rounds 5] [--inspectors 2 3]

The traffic is that of `capture.py`, from eight clients with two connections each: Heartbeat, Produce, and Fetch that
finds nothing. A round runs each number of inspectors in turn, with a trace and `--quiet`. The seconds are wall-clock
time, which other load changes: only ratios of the same round mean something, on as many idle cores as inspectors.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import capture

from dissectors import rules
from dissectors.connections.events import Direction
from kproxy.live.inspector_process import inspect
from kproxy.live.options import InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspected import InspectedTable
from kproxy.trace.lines import Detail

CLIENTS = 8
CONNECTIONS = 16
START = 1_790_000_000_000_000_000
APART_NS = 25_000


def recorded(exchanges: int) -> bytes:
    """What a tap sends."""
    sent = bytearray(tap_protocol.encode_hello(tap_messages.Hello(START, "node", 1, [], START)))
    for number in range(CONNECTIONS):
        ends = f"10.0.0.{number % CLIENTS}:{40_000 + number}", "10.0.1.1:9092", "127.0.0.1:9092"
        sent += tap_protocol.encode(tap_messages.Open(number, START, *ends, tls=False))
    for at, message in enumerate(frames(exchanges)):
        sent += tap_protocol.encode(message._replace(at=START + at * APART_NS))
    return bytes(sent)


def frames(exchanges: int) -> Iterator[tap_messages.TapData]:
    kinds = (capture._heartbeat, capture._produce, capture._fetch)
    for exchange in range(exchanges):
        turn, number = divmod(exchange, CONNECTIONS)
        head, request, response = kinds[turn % len(kinds)](turn)
        correlation_id = turn.to_bytes(4, "big")
        asked = capture._frame(head + correlation_id + capture._CLIENT_ID + b"\0" + request)
        yield tap_messages.TapData(number, Direction.REQUEST, 0, asked)
        yield tap_messages.TapData(number, Direction.RESPONSE, 0, capture._frame(correlation_id + response))


def measure(traffic: bytes, inspectors: int) -> tuple[float, float]:
    """Seconds of wall-clock time and of CPU, of all processes."""
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = socket.socketpair()
        options = InspectorOptions(
            OutputOptions(quiet=True), Selection(), Detail.SUMMARY, directory=Path(directory), workers=inspectors
        )
        started = time.perf_counter()
        child = os.fork()
        if child == 0:
            ours.close()
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
            inspect(options, theirs, InspectedTable())
        theirs.close()
        with ours:
            ours.sendall(traffic)
        _, status, usage = os.wait4(child, 0)
        assert status == 0
        return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=14_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inspectors", type=int, nargs="+", default=[2])
    args = parser.parse_args()
    traffic = recorded(args.exchanges)
    rules.rules()  # otherwise each process loads them
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(args.rounds):
        for inspectors in (1, *args.inspectors):
            found[inspectors].append(measure(traffic, inspectors))
            time.sleep(1)
    for inspectors, figures in found.items():
        seconds, cpu = (statistics.median(each) for each in zip(*figures, strict=True))
        ratios = sorted(one / several for (one, _), (several, _) in zip(found[1], figures, strict=True))
        each = 1e6 / (2 * args.exchanges)
        print(
            f"{inspectors} inspectors: {each * seconds:6.1f} us a frame, {each * cpu:6.1f} us CPU, "
            f"{statistics.median(ratios):.2f} times as many frames ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
