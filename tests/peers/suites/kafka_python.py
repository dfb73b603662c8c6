"""The integration suite of kafka-python, from the client's source distribution.

Its tests of SASL and TLS are left out because they start a Kafka of their own with such listeners.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.peers.kafka import RELEASES
from tests.peers.processes import dies_with_us
from tests.peers.toolchains import cache

CONSTRAINTS = Path(__file__).parents[3] / ".ci" / "constraints-peers.txt"
FILES = ("test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py")
#: A module that the source distribution lacks; with an existing broker it has nothing to do. It avoids two races:
#: - of the client (3.0.12): a subscription made while the first Metadata is processed is forgotten until the next
#:   request, by default five minutes later. It hit 5 of 1,600 runs of test_kafka_consumer. Here, it is a second later.
#: - of the suite: it waits until one broker knows a new topic, and test_consumer_topics may then ask another broker.
SERVICE = """\
from functools import partial

from kafka import KafkaAdminClient, KafkaConsumer

KafkaConsumer.DEFAULT_CONFIG["metadata_max_age_ms"] = 1000
wait_for_one_broker = KafkaAdminClient.wait_for_topics


def wait_for_all_brokers(admin, topics, timeout_ms=10000):
    wait_for_one_broker(admin, topics, timeout_ms)
    send = admin._manager.send
    for broker in admin._manager.cluster.brokers():
        admin._manager.send = partial(send, node_id=broker.node_id)
        wait_for_one_broker(admin, topics, timeout_ms)
    admin._manager.send = send


KafkaAdminClient.wait_for_topics = wait_for_all_brokers


class ExternalService:
    def __init__(self, host, port):
        pass


SpawnedService = None
"""


def run(
    bootstrap: str, directory: Path, *, timeout: float, files: Sequence[str] = FILES, release: str = RELEASES[0]
) -> dict[str, str]:
    """Run the suite; return the outcome of each test.

    Args:
        bootstrap: HOST:PORT.
        directory: The directory to unpack it in.
        timeout: The time limit; each single test has 120.
        files: The test files to run.
        release: The release of Kafka.
    """
    with tarfile.open(_source()) as source:
        # Python before 3.11.4 has no extraction filters; the hash of this file is pinned.
        source.extractall(directory, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    [root] = directory.glob("kafka_python-*")
    (root / "test" / "__init__.py").touch()  # otherwise, Python's own package of that name is found first
    (root / "test" / "service.py").write_text(SERVICE)
    environment = {"KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_VERSION": release, "KAFKA_ROOT": str(root)}
    report = directory / "report.xml"
    options = ["-p", "no:cacheprovider", "-o", "addopts=", "-o", "log_level=WARNING", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options, "--timeout=120", "--timeout-method=signal"]
    subprocess.run(
        dies_with_us([*command, *(f"test/integration/{name}" for name in files)]),
        cwd=root, env=os.environ | environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
    )  # fmt: skip
    return {test_case.get("name", ""): _outcome(test_case) for test_case in ET.parse(report).iter("testcase")}


def _outcome(case: ET.Element) -> str:
    problems = [
        f"{element.tag}: {element.get('message')}" for element in case if element.tag in ("failure", "error", "skipped")
    ]
    return "; ".join(problems) or "passed"


def version() -> str:
    """Return the pinned release."""
    return pinned_requirement()[1]


def pinned_requirement() -> re.Match[str]:
    pinned = re.search(r"^kafka-python==(\S+)(?: *\\\n +--hash=\S+)+", CONSTRAINTS.read_text(), re.MULTILINE)
    assert pinned is not None
    return pinned


def _source() -> Path:
    """Return the path of the source distribution; it must have the pinned hash."""
    pinned = pinned_requirement()
    source = cache() / f"kafka_python-{pinned[1]}.tar.gz"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        requirements = source.with_suffix(".txt")
        requirements.write_text(pinned[0])
        options = ["-q", "--no-deps", "--no-binary", "kafka-python", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", *options, "-r", requirements, "-d", source.parent]
        subprocess.run(command, check=True, timeout=300)
    return source
