"""Record the traffic of real clients with real Kafka, as captures for the other benchmarks.

    PYTHONPATH=. python benchmarks/recording.py DIRECTORY [--seconds 30] [--packets 2000] [--only services ...]

Writes one capture for each kind of client: `services` (librdkafka and kafka-python, see `services.py`), and small
requests of Java (Kafka's perf tools and console tools), franz-go and KafkaJS. With `--packets`, only the first packets
of each are kept, compressed, as in `tests/data/traffic`. Needs tcpdump (as root), java, mvn, go, node, npm and
`.ci/constraints-peers.txt`; kinds whose programs are missing are left out with a message.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.peers import toolchains
from tests.peers.clients import missing
from tests.peers.kafka import HOST, RELEASES, Kafka
from tests.peers.kafka import missing as missing_kafka
from tests.peers.processes import dies_with_us

_HERE: Final = Path(__file__).resolve().parent
_RECORDS_PER_SECOND: Final = 300
_PACKET_HEAD_BYTES: Final = 16
_FILE_HEAD_BYTES: Final = 24


def services(kafka: Kafka, bootstrap: str, seconds: float) -> None:
    """Run `services.py`."""
    _run([sys.executable, str(_HERE / "services.py"), bootstrap, str(seconds)], seconds)


def java(kafka: Kafka, bootstrap: str, seconds: float) -> None:
    """Run three producers at a steady rate, one of them transactional, and a group with each protocol."""
    payloads = kafka.log.with_name("payloads")
    payloads.write_text("".join(f'{{"id": {number}, "text": "{"order " * (number % 40)}"}}\n' for number in range(200)))
    server_option = ("--bootstrap-server", bootstrap)
    kafka.tool("topics", *server_option, "--create", "--topic", "java", "--partitions", "4")
    with contextlib.ExitStack() as stack:
        for protocol in ("classic", "consumer"):
            reading = ("--topic", "java", "--group", protocol, "--command-property", f"group.protocol={protocol}")
            consumer_settings = (
                "--command-property",
                "fetch.max.wait.ms=50",
                "--command-property",
                "auto.commit.interval.ms=200",
            )
            consumer = kafka.start_tool("console-consumer", *server_option, *reading, *consumer_settings)
            stack.callback(consumer.wait)
            stack.callback(consumer.terminate)
        producers: list[tuple[str, ...]] = [
            ("acks=1", "enable.idempotence=false"),
            ("compression.type=lz4",),
            ("transactional.id=java", "transaction.timeout.ms=10000"),
        ]
        producer_threads = [
            threading.Thread(
                target=kafka.tool,
                args=(
                    *("producer-perf", "--topic", "java", "--payload-file", str(payloads)),
                    *(
                        "--num-records",
                        str(int(_RECORDS_PER_SECOND * seconds)),
                        "--throughput",
                        str(_RECORDS_PER_SECOND),
                    ),
                    *(("--transaction-duration-ms", "20") if "transactional.id=java" in settings else ()),
                    *(
                        "--command-property",
                        f"bootstrap.servers={bootstrap}",
                        "linger.ms=0",
                        "batch.size=1000",
                        *settings,
                    ),
                ),
            )
            for settings in producers
        ]
        for thread in producer_threads:
            thread.start()
        for thread in producer_threads:
            thread.join()
    kafka.tool("consumer-perf", *server_option, "--topic", "java", "--num-records", "1000", "--fetch-size", "20000")


def franz_go(kafka: Kafka, bootstrap: str, seconds: float) -> None:
    """Run `tests/peers/go/load`."""
    _run([str(toolchains.go_program("load")), bootstrap, "franz-go", str(seconds)], seconds)


def kafkajs(kafka: Kafka, bootstrap: str, seconds: float) -> None:
    """Run `tests/peers/js/load.js`."""
    environment = {"NODE_PATH": str(toolchains.node_modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    _run(["node", str(toolchains.JS / "load.js"), bootstrap, "kafkajs", str(seconds)], seconds, environment)


#: For each kind of client, a function that generates its traffic, and the client of `tests.peers` that needs the same
#: programs.
Traffic = Callable[[Kafka, str, float], None]
KINDS: Final[dict[str, tuple[Traffic, str]]] = {
    "services": (services, "confluent"),
    "java": (java, "java"),
    "franz-go": (franz_go, "franz"),
    "kafkajs": (kafkajs, "kafkajs"),
}


def _run(command: list[str], seconds: float, environment: dict[str, str] | None = None) -> None:
    completed = subprocess.run(
        dies_with_us(command), timeout=seconds + 120, env=os.environ | (environment or {}), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    if completed.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {completed.returncode}: {completed.stderr.strip()}")


@contextlib.contextmanager
def capture_traffic(path: Path, port: int) -> Iterator[None]:
    """During the block, capture the traffic of a port on loopback in a file; no packet may be lost."""
    command = [
        "tcpdump",
        "-i",
        "lo",
        "-s",
        "0",
        "-B",
        "262144",
        "-U",
        "-Z",
        "root",
        "-w",
        str(path),
        f"tcp port {port}",
    ]
    with subprocess.Popen(dies_with_us(command), stderr=subprocess.PIPE, text=True) as tcpdump:
        assert tcpdump.stderr is not None
        for line in tcpdump.stderr:
            if "listening on" in line:
                break
        else:
            raise SystemExit("tcpdump does not start: run it as root")
        try:
            yield
        finally:
            tcpdump.send_signal(signal.SIGINT)
            printed = tcpdump.stderr.read()
    if "\n0 packets dropped by kernel" not in f"\n{printed}":
        raise SystemExit(f"tcpdump lost packets of {path}: {printed.strip()}")


def record(directory: Path, seconds: float, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, Path]:
    """Record each kind of client that can run here for `seconds`, with a new Kafka; return the captures by kind."""
    directory.mkdir(parents=True, exist_ok=True)
    captures = {}
    for kind in kinds:
        traffic, client = KINDS[kind]
        if (reason := missing_kafka() or missing(client) or toolchains.absent("tcpdump")) is not None:
            print(f"{kind} is not recorded: it {reason}", file=sys.stderr)
            continue
        path = directory / f"{kind}.pcap"
        with tempfile.TemporaryDirectory() as data:
            kafka = Kafka(RELEASES[0], Path(data), {}, {})
            try:
                with capture_traffic(path, kafka.direct[1]):
                    traffic(kafka, f"{HOST}:{kafka.direct[1]}", seconds)
            finally:
                kafka.kill()
        captures[kind] = path
    return captures


def shorten(capture: Path, packets: int) -> Path:
    """Replace a capture by its first packets, compressed; return the path of the new file."""
    content = capture.read_bytes()
    end = _FILE_HEAD_BYTES
    for _ in range(packets):
        if end >= len(content):
            break
        end += _PACKET_HEAD_BYTES + int.from_bytes(content[end + 8 : end + 12], sys.byteorder)
    shortened = capture.with_suffix(".pcap.gz")
    shortened.write_bytes(gzip.compress(content[:end], mtime=0))
    capture.unlink()
    return shortened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--packets", type=int, help="keep so many packets of each capture")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    for kind, path in record(args.directory, args.seconds, args.only).items():
        shortened = shorten(path, args.packets) if args.packets else path
        print(f"{kind}: {shortened}, {shortened.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
