"""TLS on both sides of kproxy, with real clients and a real Kafka that requires a client certificate."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.development_ca import certificates, store
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.toolchains import absent, skip
from tests.peers.trace import all_findings, read_lines

pytestmark = pytest.mark.peers

kafka_client = pytest.importorskip("confluent_kafka")

COUNT = 1000
SECONDS = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a CA with one certificate for loopback, which the broker, kproxy and clients share."""
    directory = tmp_path_factory.mktemp("ca")
    store.save(directory, certificates.create(["127.0.0.1", "localhost"], 1))
    (directory / "both.pem").write_bytes((directory / "key.pem").read_bytes() + (directory / "cert.pem").read_bytes())
    return directory


@pytest.fixture(scope="module", params=RELEASES)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[Kafka]:
    if reason := missing():
        skip(reason)
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files / "both.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        "ssl.client.auth": "required",
    }
    kafka = Kafka(request.param, tmp_path_factory.mktemp("kafka"), {"SSL": 0}, properties)
    yield kafka
    kafka.kill()


def run_tls_proxy(kafka: Kafka, files: Path, directory: Path, *options: str) -> Proxy:
    """Run kproxy with TLS and client certificates on both sides."""
    listener_options = ["--tls-cert", str(files / "cert.pem"), "--tls-key", str(files / "key.pem")]
    listener_options += ["--tls-client-ca", str(files / "ca.pem")]
    upstream_options = ["--upstream-tls", "--upstream-ca", str(files / "ca.pem")]
    return Proxy(kafka.listeners["SSL"], directory, "--advertise", *listener_options, *upstream_options, *options)


def upstream_certificate_options(files: Path) -> list[str]:
    return ["--upstream-cert", str(files / "cert.pem"), "--upstream-key", str(files / "key.pem")]


def client_settings(proxy: Proxy, files: Path) -> dict[str, Any]:
    return {
        "bootstrap.servers": proxy.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(files / "ca.pem"),
        "ssl.certificate.location": str(files / "cert.pem"),
        "ssl.key.location": str(files / "key.pem"),
    }


def test_confluent_kafka_exchanges_records_with_certificates_on_both_sides(
    kafka: Kafka, files: Path, tmp_path: Path
) -> None:
    log = tmp_path / "keys"
    proxy = run_tls_proxy(kafka, files, tmp_path, *upstream_certificate_options(files), "--tls-key-log", str(log))
    try:
        base = client_settings(proxy, files)
        producer = kafka_client.Producer(base)
        for number in range(COUNT):
            producer.produce("by-confluent", str(number) * 100)
        assert producer.flush(SECONDS) == 0
        consumer = kafka_client.Consumer(base | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["by-confluent"])
        values: list[bytes] = []

        def has_all() -> bool:
            values.extend(message.value() for message in consumer.consume(1000, 1.0) if message.error() is None)
            return len(values) >= COUNT

        until("all messages are read", has_all, timeout=SECONDS)
        consumer.close()
        proxy.interrupt()
    finally:
        proxy.kill_all()
    assert sorted(values) == sorted(f"{str(number) * 100}".encode() for number in range(COUNT))
    lines = read_lines(proxy.trace)
    assert all(line["tls"] for line in lines if line["kind"] == "open")
    assert {"Produce", "Fetch", "JoinGroup"} <= {line.get("api") for line in lines}
    assert {finding["code"][0] for finding in all_findings(lines)} & {"X", "L"} == set()
    assert log.read_text().count("CLIENT_TRAFFIC_SECRET_0") >= 2
    assert "SECRET" not in proxy.printed


def test_kcat_exchanges_records_with_certificates_on_both_sides(kafka: Kafka, files: Path, tmp_path: Path) -> None:
    if reason := absent("kcat"):
        skip(reason)
    proxy = run_tls_proxy(kafka, files, tmp_path, *upstream_certificate_options(files))
    records = "".join(f"{number}\n" for number in range(COUNT))
    options = [argument for item in client_settings(proxy, files).items() for argument in ("-X", "=".join(item))]

    def kcat(*arguments: str, stdin: str = "") -> str:
        command = ["kcat", "-b", proxy.bootstrap, *options, *arguments]
        run = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr + proxy.printed
        return run.stdout

    try:
        kcat("-P", "-t", "by-kcat", stdin=records)
        assert kcat("-C", "-t", "by-kcat", "-p", "0", "-o", "beginning", "-e", "-q") == records
        proxy.interrupt()
    finally:
        proxy.kill_all()


def test_clients_and_brokers_that_reject_tls_are_reported(kafka: Kafka, files: Path, tmp_path: Path) -> None:
    store.save(tmp_path / "other", certificates.create(["localhost"], 1))
    proxy = run_tls_proxy(kafka, files, tmp_path, "--no-check")
    try:
        base = client_settings(proxy, files)
        for overrides in (
            {"ssl.ca.location": str(tmp_path / "other" / "ca.pem")},
            {"ssl.certificate.location": "", "ssl.key.location": ""},
            {"security.protocol": "PLAINTEXT"},
            {},  # kproxy has no certificate for the broker
        ):
            client_errors: list[str] = []
            producer = kafka_client.Producer(
                {key: value for key, value in (base | overrides).items() if value}
                | {"error_cb": lambda error, errors=client_errors: errors.append(str(error))}
            )
            until(
                "the client has failed",
                lambda producer=producer, errors=client_errors: producer.poll(0.1) or errors,
                timeout=SECONDS,
            )
            del producer
        proxy.interrupt()
    finally:
        proxy.kill_all()
    reasons = {
        finding["message"].partition("failed: ")[2]
        for finding in all_findings(read_lines(proxy.trace))
        if finding["code"] == "X022"
    }
    assert reasons == {
        "it does not trust kproxy's certificate: unknown CA",
        "it sent no client certificate",
        "it speaks plaintext",
        "it requires a client certificate",
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from kafka-python
def test_client_reaches_three_brokers_by_name_through_one_port(tmp_path: Path, monkeypatch: Any) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    store.save(tmp_path / "ca", certificates.create(["localhost", "*.kafka.test"], 1))
    real_getaddrinfo = socket.getaddrinfo

    def resolve_to_loopback(host: str, *arguments: Any, **settings: Any) -> Any:
        return real_getaddrinfo("127.0.0.1" if host.endswith(".kafka.test") else host, *arguments, **settings)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_to_loopback)
    broker = BrokerThread(brokers=3, topics={"orders": 6})
    with broker:
        host, _, port = broker.bootstrap.partition(",")[0].rpartition(":")
        listener_options = [
            "--tls-cert",
            str(tmp_path / "ca" / "cert.pem"),
            "--tls-key",
            str(tmp_path / "ca" / "key.pem"),
        ]
        proxy = Proxy((host, int(port)), tmp_path, "--advertise", "b$id.kafka.test", *listener_options)
        try:
            client_options = {
                "bootstrap_servers": f"localhost:{proxy.address[1]}",
                "security_protocol": "SSL",
                "ssl_cafile": str(tmp_path / "ca" / "ca.pem"),
            }
            producer = KafkaProducer(**client_options)
            for number in range(60):
                producer.send("orders", str(number).encode(), partition=number % 6).get(SECONDS)
            producer.close()
            consumer = KafkaConsumer("orders", **client_options, auto_offset_reset="earliest", consumer_timeout_ms=5000)
            values = [int(message.value) for message, _ in zip(consumer, range(60), strict=False)]
            consumer.close()
            proxy.interrupt()
        finally:
            proxy.kill_all()
    assert sorted(values) == list(range(60))
    lines = read_lines(proxy.trace)
    servers = {line["server"] for line in lines if line.get("api") == "Produce"}
    assert len(servers) == 3
    assert len({line["listener"] for line in lines if line["kind"] == "open"}) == 1
    assert not {finding["code"] for finding in all_findings(lines)} & {"X022", "S002", "S003"}
