"""Kafka's own perf tools through kproxy to a real broker: --advertise against the plain relay.

    PYTHONPATH=. python benchmarks/relay_kafka.py [--rounds 6] [--records 300000] [--size 1000] [--sample SHARE]

The broker has a listener that advertises the plain relay, because real clients follow what Metadata names; behind
--advertise it has its own address. Each round runs producer and consumer through both, in alternating order. The tools
report wall-clock time: other load changes it, so only ratios of the same run mean something. CPU is the proxy's, user
and system, of all its processes. Needs java and mvn.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from relay_load import cpu_seconds

from tests.peers.kafka import HOST, RELEASES, Kafka, free_port


@dataclass
class Route:
    """A way to the broker. `pid` is the proxy's; 0 without one. `figures` has one value for each round."""

    name: str
    port: int
    pid: int
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, what: str, run: Callable[[str], float]) -> None:
        cpu = self._cpu()
        speed = run(f"{HOST}:{self.port}")
        self.figures[what].append(speed)
        self.figures[what + " CPU"].append(self._cpu() - cpu)

    def _cpu(self) -> float:
        if not self.pid:
            return 0.0
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sum(cpu_seconds(pid) for pid in (self.pid, *map(int, children)))


@contextlib.contextmanager
def proxy(port: int, upstream: tuple[str, int], *options: str) -> Iterator[int]:
    """Run kproxy; gives its process id when it listens."""
    command = [sys.executable, "-m", "kproxy", "--listen", f"{HOST}:{port}", "--upstream", "{}:{}".format(*upstream)]
    with subprocess.Popen([*command, "--no-trace", "--quiet", *options], stdout=subprocess.DEVNULL) as child:
        try:
            while child.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
                    break
                time.sleep(0.1)
            yield child.pid
        finally:
            child.terminate()


def produce(kafka: Kafka, topic: str, records: int, size: int, bootstrap: str) -> float:
    """MB/s; batches of up to 256 KiB."""
    printed = kafka.tool(
        "producer-perf", "--topic", topic, "--num-records", str(records), "--record-size", str(size),
        "--throughput", "-1",
        "--command-property", f"bootstrap.servers={bootstrap}", "batch.size=262144", "linger.ms=5",
        seconds=600,
    )  # fmt: skip
    return float(re.findall(r"\(([\d.]+) MB/sec\)", printed)[-1])


def consume(kafka: Kafka, topic: str, records: int, bootstrap: str) -> float:
    """MB/s while records are fetched."""
    printed = kafka.tool(
        "consumer-perf", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records),
        "--hide-header",
        seconds=600,
    )  # fmt: skip
    return float(printed.strip().splitlines()[-1].split(",")[8])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="the first one warms the broker up and is not counted")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=1000, help="bytes of a record")
    parser.add_argument(
        "--sample", default="0.000000001", help="see kproxy --sample: what the inspector sees costs CPU as well"
    )
    args = parser.parse_args()
    plain, advertised = free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        kafka = Kafka(RELEASES[0], Path(directory), {"PLAIN": plain}, {"log.retention.bytes": "500000000"})
        stack.callback(kafka.kill)
        options = ("--sample", args.sample)
        routes = [
            Route("direct", kafka.direct[1], 0),
            Route("plain relay", plain, stack.enter_context(proxy(plain, kafka.listeners["PLAIN"], *options))),
            Route(
                "--advertise",
                advertised,
                stack.enter_context(proxy(advertised, kafka.direct, "--advertise", *options)),
            ),
        ]
        for number in range(args.rounds):
            topic = f"round-{number}"
            for route in routes if number % 2 else routes[::-1]:
                route.measure("produce", lambda to: produce(kafka, topic, args.records, args.size, to))  # noqa: B023
            for route in routes if number % 2 else routes[::-1]:
                route.measure("consume", lambda to: consume(kafka, topic, args.records, to))  # noqa: B023
            if number:
                print(f"after round {number}:")
                for route in routes:
                    print_figures(route, routes[1], args.records * args.size / 1e6)


def print_figures(route: Route, plain: Route, megabytes: float) -> None:
    cells = ""
    for what in ("produce", "consume"):
        mine, its = route.figures[what][1:], plain.figures[what][1:]
        cpu = statistics.median(route.figures[what + " CPU"][1:]) / megabytes * 1e3
        ratios = sorted(one / other for one, other in zip(mine, its, strict=True))
        cells += f"{what:>10}{statistics.median(mine):7.0f} MB/s {cpu:6.2f} ms/MB"
        cells += f"  {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    print(f"{route.name:14}{cells}")


if __name__ == "__main__":
    main()
