"""Measure how many frames per second one inspector and several can handle: without a relay, on recorded traffic.

    python benchmarks/inspectors.py CAPTURE [--rounds 5] [--inspectors 2 3]

`recording.py` makes captures. Each round sends the traffic to each number of inspectors in turn, as fast as they read
it, with a trace and `--quiet`. Frames per second are derived from the CPU time of one inspector, the least of all
rounds, as if it had a core of its own. The ratios are of wall-clock time, which other load affects: only ratios from
the same round are meaningful, on as many idle cores as inspectors.
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
from pathlib import Path

from recorded import Sent, frames, sent

from dissectors import rules
from dissectors.connections.events import Direction
from kproxy.live.inspector_process import inspect
from kproxy.live.options import InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.trace.lines import Detail


def encode_messages(traffic: list[Sent]) -> bytes:
    """Return the messages that a tap would send."""
    start = traffic[0].at
    messages = bytearray(tap_protocol.encode_hello(tap_messages.Hello(start, "node", 1, [], start)))
    opened = set()
    for number, is_request, data, at in traffic:
        if number not in opened:
            opened.add(number)
            ends = f"127.0.0.1:{10_000 + number}", "127.0.0.1:9092", "127.0.0.1:9092"
            messages += tap_protocol.encode(tap_messages.Open(number, at, *ends, tls=False))
        direction = Direction.REQUEST if is_request else Direction.RESPONSE
        messages += tap_protocol.encode(tap_messages.TapData(number, direction, at, data))
    return bytes(messages)


def measure(traffic: bytes, inspectors: int) -> tuple[float, float]:
    """Return the wall-clock time, and the CPU time of all processes, in seconds."""
    with tempfile.TemporaryDirectory() as directory:
        relay_end, inspector_end = socket.socketpair()
        options = InspectorOptions(
            OutputOptions(quiet=True),
            Selection(fail_on="never"),
            Detail.SUMMARY,
            directory=Path(directory),
            workers=inspectors,
        )
        started = time.perf_counter()
        child = os.fork()
        if child == 0:
            relay_end.close()
            with contextlib.suppress(OSError):
                for stream in (sys.stdout, sys.stderr):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            inspect(options, inspector_end, InspectedTable())
        inspector_end.close()
        with relay_end:
            relay_end.sendall(traffic)
        _, status, usage = os.wait4(child, 0)
        assert status == 0
        return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path, metavar="CAPTURE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inspectors", type=int, nargs="+", default=[2])
    args = parser.parse_args()
    count = sum(1 for _ in frames(args.capture))
    traffic = encode_messages(list(sent(args.capture)))
    rules.rules()  # otherwise, each process would load them
    figures_by_count: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(args.rounds):
        for inspectors in (1, *args.inspectors):
            figures_by_count[inspectors].append(measure(traffic, inspectors))
            time.sleep(1)
    print(f"{count:,} frames")
    for inspectors, figures in figures_by_count.items():
        seconds = statistics.median(wall for wall, _ in figures)
        cpu = min(cpu for _, cpu in figures)
        ratios = sorted(
            single / multiple for (single, _), (multiple, _) in zip(figures_by_count[1], figures, strict=True)
        )
        keeps_up = f", {count / cpu:,.0f} frames a second" if inspectors == 1 else ""
        print(
            f"{inspectors} inspectors: {1e6 * seconds / count:6.1f} us a frame, "
            f"{1e6 * cpu / count:6.1f} us CPU{keeps_up}, "
            f"{statistics.median(ratios):.2f} times as many frames ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
