"""Run Kafka's own perf tools with a real broker: directly, through HAProxy, and through kproxy in three ways.

    PYTHONPATH=. python benchmarks/relay_kafka.py [--rounds 6] [--records 300000] [--size 1000] [--batch 262144]
        [--checkout DIRECTORY]

The rows for kproxy are: the plain relay and --advertise, which inspect only a tiny sample, and inspection of every
frame with a trace; the last also for another revision in DIRECTORY. Real clients connect to the addresses in Metadata,
so the broker has a listener for each proxy whose address it advertises; behind --advertise, it advertises its own. Each
round runs producer and consumer through all routes, in alternating order. The tools report wall-clock time, which other
load affects, so only ratios from the same run are meaningful. CPU is the user and system time of all processes of the
proxy. Needs java and mvn; without haproxy, its row is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from relay_load import cpu_seconds

from tests.peers.kafka import HOST, RELEASES, Kafka, free_port

_HERE: Final = Path(__file__).resolve().parents[1]


@dataclass
class Route:
    """A route to the broker. `pid` is the proxy's, or 0 without a proxy; `figures` has a value for each round."""

    name: str
    port: int
    pid: int
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, figure: str, run: Callable[[str], float]) -> None:
        cpu = self._cpu()
        speed = run(f"{HOST}:{self.port}")
        self.figures[figure].append(speed)
        self.figures[figure + " CPU"].append(self._cpu() - cpu)

    def _cpu(self) -> float:
        return sum(map(cpu_seconds, processes(self.pid))) if self.pid else 0.0


def processes(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants, because the inspector is not a child of the relay."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from processes(int(child))


def proxy(
    port: int, upstream: tuple[str, int], *options: str, checkout: Path = _HERE
) -> contextlib.AbstractContextManager[int]:
    """Run kproxy; yield its process id once it is listening."""
    addresses = ["--listen", f"{HOST}:{port}", "--upstream", "{}:{}".format(*upstream)]
    command = [sys.executable, "-P", "-m", "kproxy", *addresses, "--quiet", *options]
    return run_until_listening(command, port, {"PYTHONPATH": str(checkout)})


def haproxy(port: int, upstream: tuple[str, int], directory: Path) -> contextlib.AbstractContextManager[int]:
    """Run HAProxy with one thread; yield its process id once it is listening."""
    config = directory / "haproxy.cfg"
    config.write_text(
        "global\n nbthread 1\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n"
        "listen kafka\n bind {}:{}\n server broker {}:{}\n".format(HOST, port, *upstream)
    )
    return run_until_listening(["haproxy", "-db", "-f", str(config)], port)


@contextlib.contextmanager
def run_until_listening(
    command: list[str], port: int, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[int]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment}) as child:
        try:
            while child.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
                    break
                time.sleep(0.1)
            yield child.pid
        finally:
            child.terminate()


def produce(kafka: Kafka, topic: str, records: int, size: int, batch: int, bootstrap: str) -> float:
    """Return the throughput of the Java producer in MB/s."""
    printed = kafka.tool(
        "producer-perf", "--topic", topic, "--num-records", str(records), "--record-size", str(size),
        "--throughput", "-1",
        "--command-property", f"bootstrap.servers={bootstrap}", f"batch.size={batch}", "linger.ms=5",
        timeout=600,
    )  # fmt: skip
    return float(re.findall(r"\(([\d.]+) MB/sec\)", printed)[-1])


def consume(kafka: Kafka, topic: str, records: int, bootstrap: str) -> float:
    """Return the throughput of the Java consumer in MB/s while it fetches records."""
    printed = kafka.tool(
        "consumer-perf", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records),
        "--hide-header",
        timeout=600,
    )  # fmt: skip
    return float(printed.strip().splitlines()[-1].split(",")[8])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="the first one warms the broker up and is not counted")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=1000, help="bytes of a record")
    parser.add_argument("--batch", type=int, default=262_144, help="bytes of a batch at most")
    parser.add_argument("--checkout", type=Path, help="another revision of kproxy, for a row of its own")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        advertised = {"RELAY": free_port(), "INSPECTED": free_port(), "HAPROXY": free_port(), "CHECKOUT": free_port()}
        kafka = Kafka(RELEASES[0], Path(directory), advertised, {"log.retention.bytes": "500000000"})
        stack.callback(kafka.kill)
        uninspected = ("--no-trace", "--sample", "0.000000001")  # inspection would also cost CPU
        routes = [Route("direct", kafka.direct[1], 0)]
        if shutil.which("haproxy"):
            port = advertised["HAPROXY"]
            proxy_context = haproxy(port, kafka.listeners["HAPROXY"], Path(directory))
            routes.append(Route("HAProxy", port, stack.enter_context(proxy_context)))
        for name, port, upstream, *options in (
            ("plain relay", advertised["RELAY"], kafka.listeners["RELAY"], *uninspected),
            ("--advertise", free_port(), kafka.direct, "--advertise", *uninspected),
            ("with a trace", advertised["INSPECTED"], kafka.listeners["INSPECTED"], "--trace", f"{directory}/trace"),
        ):
            routes.append(Route(name, port, stack.enter_context(proxy(port, upstream, *options))))
        if args.checkout is not None:
            port, trace = advertised["CHECKOUT"], f"{directory}/trace-of-checkout"
            upstream = kafka.listeners["CHECKOUT"]
            proxy_context = proxy(port, upstream, "--trace", trace, checkout=args.checkout.resolve())
            routes.append(Route("the checkout", port, stack.enter_context(proxy_context)))
        for number in range(args.rounds):
            topic = f"round-{number}"
            for route in routes if number % 2 else routes[::-1]:
                route.measure("produce", partial(produce, kafka, topic, args.records, args.size, args.batch))
            for route in routes if number % 2 else routes[::-1]:
                route.measure("consume", partial(consume, kafka, topic, args.records))
            if number:
                print(f"after round {number}:")
                for route in routes:
                    print_figures(route, routes[0], args.records * args.size / 1e6)


def print_figures(route: Route, direct: Route, megabytes: float) -> None:
    cells = ""
    for figure in ("produce", "consume"):
        route_speeds, direct_speeds = route.figures[figure][1:], direct.figures[figure][1:]
        cpu = statistics.median(route.figures[figure + " CPU"][1:]) / megabytes * 1e3
        ratios = sorted(
            route_speed / direct_speed for route_speed, direct_speed in zip(route_speeds, direct_speeds, strict=True)
        )
        cells += f"{figure:>10}{statistics.median(route_speeds):7.0f} MB/s {cpu:6.2f} ms/MB"
        cells += f"  {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    print(f"{route.name:14}{cells}")


if __name__ == "__main__":
    main()
