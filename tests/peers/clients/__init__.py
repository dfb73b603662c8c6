"""Clients to send through the proxy; `run` sends one and says what it produced and consumed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

from tests.peers.kafka import Kafka
from tests.peers.processes import dies_with_us

#: Module here -> package that it needs.
PYTHON_CLIENTS = {"confluent": "confluent_kafka", "kafka_python": "kafka", "aio": "aiokafka"}
CLIENTS = ("java", *PYTHON_CLIENTS)


def missing(client: str) -> str | None:
    """Why a client cannot run here, or None."""
    package = PYTHON_CLIENTS.get(client)
    if package is None or importlib.util.find_spec(package):
        return None
    return f"needs the Python package {package}: install .ci/constraints-peers.txt"


def run(client: str, kafka: Kafka, bootstrap: str, topic: str, *sasl: str) -> dict[str, int]:
    """Make a topic, produce to it, consume in a group.

    Args:
        client: One of `CLIENTS`.
        kafka: Whose release of the tools `java` is.
        bootstrap: HOST:PORT.
        topic: A new name.
        sasl: Mechanism, user and password; Python clients only.

    Returns:
        ``produced`` and ``consumed``, numbers of records.
    """
    if client == "java":
        return _java(kafka, bootstrap, topic)
    report: dict[str, int] = json.loads(python_client(client, bootstrap, topic, *sasl).splitlines()[-1])
    return report


def python_client(name: str, *arguments: str) -> str:
    """Run a module of this package in a process of its own; its standard output."""
    command = [sys.executable, "-m", f"{__name__}.{name}", *arguments]
    done = subprocess.run(dies_with_us(command), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _java(kafka: Kafka, bootstrap: str, topic: str) -> dict[str, int]:
    records, newest = 2000, not kafka.release.startswith("3.")
    at, of = ("--bootstrap-server", bootstrap), ("--topic", topic)
    reading = (*of, "--from-beginning", "--max-messages", str(records), "--timeout-ms", "30000")
    kafka.tool("topics", *at, *of, "--create", "--partitions", "3")
    for codec in ("zstd", "lz4"):
        sizes = ("--num-records", str(records // 2), "--record-size", "200", "--throughput", "-1")
        settings = (f"bootstrap.servers={bootstrap}", f"compression.type={codec}")
        kafka.tool("producer-perf", *of, *sizes, "--producer-props", *settings)
    printed = kafka.tool("console-consumer", *at, *reading, "--group", f"group-{topic}")
    kafka.tool("groups", *at, "--describe", "--group", f"group-{topic}")
    if newest:  # the group protocol of KIP-848
        protocol = ("--consumer-property", "group.protocol=consumer")
        kafka.tool("console-consumer", *at, *reading, "--group", f"g848-{topic}", *protocol)
    kafka.tool("consumer-perf", *at, *of, "--num-records" if newest else "--messages", str(records))
    kafka.tool("topics", *at, *of, "--delete")
    return {"produced": records, "consumed": int(printed.rsplit("Processed a total of ")[1].split()[0])}
