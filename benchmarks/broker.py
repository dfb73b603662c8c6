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


class RunningBroker:
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


def measure_produce(tools: Kafka, broker: RunningBroker, topic: str, messages: int, size: int) -> float:
    """MB/s of the Java producer."""
    output = tools.tool(
        "producer-perf", "--topic", topic, "--num-records", str(messages), "--record-size", str(size),
        "--throughput", "-1", "--producer-props", f"bootstrap.servers=127.0.0.1:{broker.port}", seconds=300,
    )  # fmt: skip
    return float(re.findall(r"\(([\d.]+) MB/sec\)", output)[-1])


def measure_consume(tools: Kafka, broker: RunningBroker, topic: str, messages: int) -> float:
    """MB/s of the Java consumer, without the time of its rebalance."""
    output = tools.tool(
        "consumer-perf", "--topic", topic, "--num-records", str(messages),
        "--bootstrap-server", f"127.0.0.1:{broker.port}", seconds=300,
    )  # fmt: skip
    [names, *_, values] = [line.split(", ") for line in output.splitlines() if ", " in line]
    return float(dict(zip(names, values, strict=True))["fetch.MB.sec"])


def main() -> None:
    """Print a row a round, then the medians' ratios."""
    messages, size, rounds = (*map(int, sys.argv[1:]), *(100_000, 1000, 3)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as directory:
        kafka = Kafka(RELEASES[0], Path(directory), {}, {})
        built_in_process = subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True)
        try:
            assert built_in_process.stdout is not None
            brokers = {
                f"Kafka {RELEASES[0]}": RunningBroker(kafka.direct[1], kafka._process.pid),
                "built-in": RunningBroker(int(built_in_process.stdout.readline()), built_in_process.pid),
            }
            results: dict[str, list[tuple[float, float]]] = {name: [] for name in brokers}
            for number in range(rounds + 1):
                for name, broker in brokers.items():
                    cpu_before, topic = broker.cpu(), f"perf-{number}"
                    row = (
                        measure_produce(kafka, broker, topic, messages, size),
                        measure_consume(kafka, broker, topic, messages),
                    )
                    if number:
                        results[name].append(row)
                    print(
                        f"{name:12} round {number}: produced {row[0]:7.1f} MB/s  consumed {row[1]:7.1f} MB/s  "
                        f"CPU {broker.cpu() - cpu_before:5.2f} s  memory {broker.most_memory()} MB",
                        flush=True,
                    )
        finally:
            built_in_process.kill()
            built_in_process.wait()
            kafka.kill()
    kafka_medians, built_in_medians = (
        [median(column) for column in zip(*rows, strict=True)] for rows in results.values()
    )
    for operation, real, built_in in zip(("produced", "consumed"), kafka_medians, built_in_medians, strict=True):
        print(f"{operation}: built-in / real = {built_in / real:.2f}")


if __name__ == "__main__":
    main()
