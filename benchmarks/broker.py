"""Compare the built-in broker with real Kafka, using Kafka's own perf tools in turns: throughput, CPU, memory.

PYTHONPATH=. python benchmarks/broker.py [MESSAGES [BYTES [ROUNDS]]]

The first round warms up real Kafka and is not counted. The tools report wall-clock time, so trust only ratios from the
same run, on an otherwise idle machine.
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
_TICKS = 100  # per second, in /proc/PID/stat


class RunningBroker:
    """The port and the process id of a broker in a process of its own."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid

    def cpu_seconds(self) -> float:
        """Return the CPU time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_memory(self) -> int:
        """Return the peak memory in MB."""
        [line] = [line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if "VmHWM" in line]
        return int(line.split()[1]) // 1024


def measure_produce(tools: Kafka, broker: RunningBroker, topic: str, messages: int, size: int) -> float:
    """Return the throughput of the Java producer in MB/s."""
    output = tools.tool(
        "producer-perf", "--topic", topic, "--num-records", str(messages), "--record-size", str(size),
        "--throughput", "-1", "--producer-props", f"bootstrap.servers=127.0.0.1:{broker.port}", timeout=300,
    )  # fmt: skip
    return float(re.findall(r"\(([\d.]+) MB/sec\)", output)[-1])


def measure_consume(tools: Kafka, broker: RunningBroker, topic: str, messages: int) -> float:
    """Return the throughput of the Java consumer in MB/s, without the time for its rebalance."""
    output = tools.tool(
        "consumer-perf", "--topic", topic, "--num-records", str(messages),
        "--bootstrap-server", f"127.0.0.1:{broker.port}", timeout=300,
    )  # fmt: skip
    [names, *_, values] = [line.split(", ") for line in output.splitlines() if ", " in line]
    return float(dict(zip(names, values, strict=True))["fetch.MB.sec"])


def main() -> None:
    """Print a row per round and broker, then the ratios of the medians."""
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
                    cpu_before, topic = broker.cpu_seconds(), f"perf-{number}"
                    row = (
                        measure_produce(kafka, broker, topic, messages, size),
                        measure_consume(kafka, broker, topic, messages),
                    )
                    if number:
                        results[name].append(row)
                    print(
                        f"{name:12} round {number}: produced {row[0]:7.1f} MB/s  consumed {row[1]:7.1f} MB/s  "
                        f"CPU {broker.cpu_seconds() - cpu_before:5.2f} s  memory {broker.peak_memory()} MB",
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
