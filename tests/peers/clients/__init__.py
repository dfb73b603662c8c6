"""Real clients; `run` runs one and returns its report."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

from tests.peers.clients import java
from tests.peers.kafka import Tools
from tests.peers.processes import dies_with_us
from tests.peers.toolchains import JS, absent, go_program, node_modules

#: Modules of this package, with the packages that they need.
PYTHON_CLIENTS = {"confluent": "confluent_kafka", "kafka_python": "kafka", "aio": "aiokafka"}
#: Commands of tests/peers/go.
GO_CLIENTS = ("franz", "kafkago", "sarama")
CLIENTS = ("java", *PYTHON_CLIENTS)
ALL = (*CLIENTS, *GO_CLIENTS, "kafkajs")
#: The numbers of records ``produced`` and ``consumed``, of ``members`` that shared the topic's partitions at the same
#: time, and of ``configs`` of the topic.
Report = dict[str, int]


def missing(client: str) -> str | None:
    """Return the reason why a client cannot run, or None."""
    if client == "java":
        return absent("java", "mvn")
    if client == "kafkajs":
        return absent("node", "npm")
    if client in GO_CLIENTS:
        return absent("go")
    package = PYTHON_CLIENTS[client]
    if importlib.util.find_spec(package):
        return None
    return f"needs the Python package {package}: install .ci/constraints-peers.txt"


def run(client: str, release: str, bootstrap: str, topic: str, *sasl: str) -> Report:
    """Create a topic, produce to it, consume in a group that grows to two members, describe the topic, delete it.

    Args:
        client: One of `ALL`.
        release: The release of Kafka's own tools, which `java` runs.
        bootstrap: HOST:PORT.
        topic: The name of a topic that does not exist yet.
        sasl: Mechanism, user and password, for Python clients only.
    """
    if client == "java":
        return java.run(Tools(release), bootstrap, topic)
    if client == "kafkajs":
        environment = os.environ | {"NODE_PATH": str(node_modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
        printed = _run_program(["node", str(JS / "kafkajs.js"), bootstrap, topic], environment)
    elif client in GO_CLIENTS:
        printed = _run_program([str(go_program(client)), bootstrap, topic])
    else:
        printed = python_client(client, bootstrap, topic, *sasl)
    report: Report = json.loads(printed.splitlines()[-1])
    return report


def python_client(name: str, *arguments: str) -> str:
    """Run a module of this package in a separate process; return its standard output."""
    return _run_program([sys.executable, "-m", f"{__name__}.{name}", *arguments])


def _run_program(command: list[str], environment: dict[str, str] | None = None) -> str:
    process = subprocess.run(dies_with_us(command), capture_output=True, text=True, timeout=180, env=environment)
    assert process.returncode == 0, process.stderr
    return process.stdout
