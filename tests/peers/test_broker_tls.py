"""Real clients use TLS with the built-in broker: the relay terminates TLS, and the broker knows the principals."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.development_ca import certificates, store
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.toolchains import absent, skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

kafka_client = pytest.importorskip("confluent_kafka")

COUNT = 1000
SECONDS = 60
PARTITIONS = 6


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a CA with a certificate for 127.0.0.1 and, in ``alice``, a CA with a certificate for a client."""
    directory = tmp_path_factory.mktemp("ca")
    store.save(directory, certificates.create(["127.0.0.1"], 1))
    store.save(directory / "alice", certificates.create(["alice"], 1))
    return directory


@contextmanager
def run_built_in_broker(files: Path, directory: Path, *options: str) -> Iterator[Proxy]:
    tls = ("--tls-cert", str(files / "cert.pem"), "--tls-key", str(files / "key.pem"))
    proxy = Proxy(None, directory, "-q", "--topic", f"orders:{PARTITIONS}", *tls, *options)
    try:
        yield proxy
    finally:
        proxy.kill_all()


def exchange(settings: dict[str, Any]) -> None:
    """Produce `COUNT` records, and consume them in a group."""
    producer = kafka_client.Producer(settings)
    for number in range(COUNT):
        producer.produce(
            "orders", str(number), partition=number % PARTITIONS
        )  # librdkafka might choose a single partition
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    consumer = kafka_client.Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[int] = []

    def has_all() -> bool:
        values.extend(int(message.value()) for message in consumer.consume(1000, 1.0) if message.error() is None)
        return len(values) >= COUNT

    until("all messages are read", has_all, timeout=SECONDS)
    consumer.close()
    assert sorted(values) == list(range(COUNT))


def stop_and_check(proxy: Proxy) -> list[Line]:
    """Stop the proxy; return its trace, which must be decrypted and without findings about security or layout."""
    proxy.interrupt()
    lines = read_lines(proxy.trace)
    assert {line["tls"] for line in lines if line["kind"] == "open"} == {True}
    assert {"Produce", "Fetch", "JoinGroup"} <= {line.get("api") for line in lines}
    assert {finding["code"][0] for finding in all_findings(lines)} & {"X", "L"} == set()
    return lines


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_confluent_kafka_logs_in_to_three_brokers_over_tls(files: Path, tmp_path: Path, mechanism: str) -> None:
    login = ("--sasl", mechanism, "--user", "alice:sesame")
    with run_built_in_broker(files, tmp_path, "--brokers", "3", *login) as proxy:
        exchange(
            {
                "bootstrap.servers": proxy.bootstrap,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(files / "ca.pem"),
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": "sesame",
            }
        )
        servers = set(re.findall(r"127.0.0.1:\d+", proxy.printed.partition("bootstrap.servers=")[2].partition("\n")[0]))
        lines = stop_and_check(proxy)
    assert {line["principal"] for line in lines if line.get("api") in ("Produce", "Fetch")} == {"User:alice"}
    assert {line["server"] for line in lines if line.get("api") == "Produce"} == servers
    assert len(servers) == 3
    assert "sesame" not in proxy.printed


def test_subject_of_the_client_certificate_is_the_principal(files: Path, tmp_path: Path) -> None:
    acls = ("--tls-client-ca", str(files / "alice" / "ca.pem"), "--acls", "--super-user", "User:CN=alice")
    with run_built_in_broker(files, tmp_path, *acls) as proxy:
        exchange(
            {
                "bootstrap.servers": proxy.bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.location": str(files / "ca.pem"),
                "ssl.certificate.location": str(files / "alice" / "cert.pem"),
                "ssl.key.location": str(files / "alice" / "key.pem"),
            }
        )
        stop_and_check(proxy)


def test_wrong_password_of_kcat_is_reported(files: Path, tmp_path: Path) -> None:
    if reason := absent("kcat"):
        skip(reason)
    with run_built_in_broker(files, tmp_path, "--sasl", "PLAIN", "--user", "alice:sesame") as proxy:
        bootstrap = proxy.bootstrap
        settings = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(files / "ca.pem"),
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "wrong",
        }
        options = [argument for item in settings.items() for argument in ("-X", "=".join(item))]
        command = ["kcat", "-b", bootstrap, "-L", "-m", "10", *options]
        assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0
        proxy.interrupt()
    messages = [finding["message"] for finding in all_findings(read_lines(proxy.trace)) if finding["code"] == "X008"]
    assert messages
    assert all(f" at {bootstrap} failed" in message for message in messages)
