"""Kafka's own perf tools against the built-in broker and a real Kafka in turns: throughput, CPU, memory.

PYTHONPATH=. python benchmarks/broker.py [MESSAGES [BYTES [ROUNDS]]]

The first round warms the real Kafka up and is not counted. What the tools say is wall-clock time: believe ratios of one
run, on a machine that does nothing else.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.peers.kafka import RELEASES, Kafka

_SERVE = """
import asyncio
from kproxy.broker import Broker

async def serve():
    async with Broker(report=print) as broker:
        print(broker.ports[0], flush=True)
        await asyncio.Event().wait()

asyncio.run(serve())
"""
_TICKS = 100  # a second, of /proc/PID/stat


class Served:
    """A broker in a process of its own: `port` and `pid`."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid

    def cpu(self) -> float:
        """Seconds of CPU that it took so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def most_memory(self) -> int:
        """MB that it took at most."""
        [line] = [line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if "VmHWM" in line]
        return int(line.split()[1]) // 1024


def produced(tools: Kafka, served: Served, topic: str, messages: int, size: int) -> float:
    """MB/s of the Java producer."""
    said = tools.tool(
        "producer-perf", "--topic", topic, "--num-records", str(messages), "--record-size", str(size),
        "--throughput", "-1", "--producer-props", f"bootstrap.servers=127.0.0.1:{served.port}", seconds=300,
    )  # fmt: skip
    return float(re.findall(r"\(([\d.]+) MB/sec\)", said)[-1])


def consumed(tools: Kafka, served: Served, topic: str, messages: int) -> float:
    """MB/s of the Java consumer, without the time of its rebalance."""
    said = tools.tool(
        "consumer-perf", "--topic", topic, "--num-records", str(messages),
        "--bootstrap-server", f"127.0.0.1:{served.port}", seconds=300,
    )  # fmt: skip
    [names, *_, values] = [line.split(", ") for line in said.splitlines() if ", " in line]
    return float(dict(zip(names, values, strict=True))["fetch.MB.sec"])


def main() -> None:
    """Print a row a round, then the medians' ratios."""
    messages, size, rounds = (*map(int, sys.argv[1:]), *(100_000, 1000, 3)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as directory:
        kafka = Kafka(RELEASES[0], Path(directory), {}, {})
        own = subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True)
        try:
            assert own.stdout is not None
            both = {
                f"Kafka {RELEASES[0]}": Served(kafka.direct[1], kafka._process.pid),
                "built-in": Served(int(own.stdout.readline()), own.pid),
            }
            measured: dict[str, list[tuple[float, float]]] = {name: [] for name in both}
            for number in range(rounds + 1):
                for name, served in both.items():
                    before, topic = served.cpu(), f"perf-{number}"
                    row = produced(kafka, served, topic, messages, size), consumed(kafka, served, topic, messages)
                    if number:
                        measured[name].append(row)
                    print(
                        f"{name:12} round {number}: produced {row[0]:7.1f} MB/s  consumed {row[1]:7.1f} MB/s  "
                        f"CPU {served.cpu() - before:5.2f} s  memory {served.most_memory()} MB",
                        flush=True,
                    )
        finally:
            own.kill()
            own.wait()
            kafka.kill()
    theirs, ours = ([median(column) for column in zip(*rows, strict=True)] for rows in measured.values())
    for what, real, built_in in zip(("produced", "consumed"), theirs, ours, strict=True):
        print(f"{what}: built-in / real = {built_in / real:.2f}")


if __name__ == "__main__":
    main()
