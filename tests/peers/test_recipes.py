"""The recipes of docs/deployment.md for clusters with TLS, run as they are printed against a real Kafka."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.peers.recipe import Machine, Recipe, authority, certify, missing, start_brokers
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

NUMBERS = sorted(map(str, range(1, 1001)))
SCRAM = Recipe("A cluster with TLS and SCRAM")
MANAGED = Recipe("A managed service")


@contextmanager
def machine(directory: Path, names: Mapping[str, str], **environment: str) -> Iterator[Machine]:
    if reason := missing():
        skip(reason)
    machine = Machine(directory, names, environment)
    try:
        yield machine
    finally:
        machine.close()


def write_files(recipe: Recipe, directory: Path) -> None:
    for name, text in recipe.files.items():
        if " " not in name:
            (directory / name).write_text(text)


def run_clients(where: Machine, recipe: Recipe, reader: str) -> None:
    """The commands of clients: what is written is read."""
    where.run(recipe.command("kafka-topics.sh "))
    where.run(recipe.command("seq "))
    printed = where.run(recipe.command(reader)).splitlines()
    assert sorted(line for line in printed if line.isdecimal()) == NUMBERS


def ended(proxy: subprocess.Popen[bytes], directory: Path) -> list[Line]:
    """The lines of the trace after Ctrl-C."""
    proxy.send_signal(signal.SIGINT)
    assert proxy.wait(60) == 0
    return read_lines(directory / "kproxy-trace")


def principals(lines: list[Line]) -> set[str | None]:
    return {line.get("principal") for line in lines if line.get("api") in ("Produce", "Fetch", "CreateTopics")}


def test_a_cluster_with_tls_and_scram(tmp_path: Path) -> None:
    names = {f"broker-{number}.example.com": f"127.0.0.{10 + number}" for number in (1, 2, 3)}
    request, sign = SCRAM.command("openssl req"), SCRAM.command("openssl x509")
    with machine(tmp_path, {"kproxy.example.com": "127.0.0.10", **names}) as here:
        write_files(SCRAM, tmp_path)
        authority(here)
        for number in (1, 2, 3):
            certify(here, request, sign, f"broker-{number}")
        settings = {
            number: SCRAM.files["server.properties of broker 1"].replace("broker-1", f"broker-{number}")
            + f"listeners=SASL_SSL://broker-{number}.example.com:9093\n"
            for number in (1, 2, 3)
        }
        start_brokers(here, settings, {"broker": "broker-secret", "alice": "alice-secret"})
        here.run(f"{request} && {sign}")
        proxy = here.start(SCRAM.command("kproxy --config-file"), ready="listening on")
        run_clients(here, SCRAM, "kafka-console-consumer.sh ")
        secured = "--bootstrap-server kproxy.example.com:9093 --command-config client.properties"
        offsets = here.run(f"kafka-get-offsets.sh {secured} --topic orders")  # it asks all three brokers
        (tmp_path / "wrong.properties").write_text(SCRAM.files["client.properties"].replace("alice-secret", "wrong"))
        here.run(SCRAM.command("kafka-topics.sh ").replace("client.properties", "wrong.properties"), status=1)
        lines = ended(proxy, tmp_path)
        produced, without, listed = (command for command in SCRAM.commands if command.startswith("kproxy dissect"))
        shown, plain, findings = here.run(produced), here.run(without), here.run(listed, status=1)
    assert principals(lines) == {"User:alice"}
    assert sum(int(line.rpartition(":")[2]) for line in offsets.splitlines()) == 1000
    assert {line["server"] for line in lines if line.get("api") == "ListOffsets"} == {
        f"127.0.0.{10 + number}:9093" for number in (1, 2, 3)
    }
    opened = {line["listener"] for line in lines if line["kind"] == "open"}
    assert opened == {f"127.0.0.10:{port}" for port in (9093, 9096, 9097)}
    assert {finding["code"] for finding in all_findings(lines) if finding["code"][0] in "LX"} == {"X008"}
    assert "Produce" in shown
    assert "orders" in shown
    assert "Fetch" not in shown
    assert "Produce" not in plain
    assert "X008 sasl-auth-failed" in findings
    assert "alice-secret" not in "".join(map(str, lines)) + shown + findings


@pytest.mark.parametrize("tls", [True, False], ids=["tls to kproxy", "plaintext to kproxy"])
def test_a_managed_service(tmp_path: Path, tls: bool) -> None:
    zone = "cluster-1.example.cloud"
    names = [f"{name}.{zone}" for name in ("bootstrap", "b1", "b2")]
    request, sign = SCRAM.command("openssl req"), SCRAM.command("openssl x509")
    public = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}  # in the place of the system's CAs
    with machine(tmp_path, dict.fromkeys(names, "127.0.0.20"), **public) as here:
        write_files(MANAGED, tmp_path)
        authority(here)
        certify(here, request.replace("kproxy.example.com", f"*.{zone}"), sign, "service")
        start_brokers(here, {number: service(number, zone) for number in (1, 2)})
        router = [f"{names[number]}=127.0.0.{10 + max(number, 1)}:9092" for number in range(3)]
        here.start(f"{sys.executable} -m tests.peers.sni_router 127.0.0.20:9092 {' '.join(router)}", ready="routing")
        if tls:
            here.run(MANAGED.command("kproxy ca create"))
        else:
            without_tls(tmp_path)
        proxy = here.start(MANAGED.command("kproxy --config-file"), ready="listening on")
        run_clients(here, MANAGED, "kcat ")
        bearer = "-X sasl.mechanism=OAUTHBEARER -X enable.sasl.oauthbearer.unsecure.jwt=true "
        here.run(MANAGED.command("kcat ") + f" -X sasl.username= {bearer} -X sasl.oauthbearer.config=principal=bob")
        lines = ended(proxy, tmp_path)
    assert principals(lines) == {"User:API_KEY", "User:bob"}
    assert {line.get("tls", False) for line in lines if line["kind"] == "open"} == {tls}
    routed = next(path.read_text() for path in tmp_path.glob("log-*.txt") if "routing" in path.read_text())
    assert {f"asked for {name}" for name in names} == set(routed.splitlines()) - {"routing"}
    assert {finding["code"] for finding in all_findings(lines) if finding["code"][0] in "LX"} <= {"X005"}


def service(number: int, zone: str) -> str:
    """The settings of a broker whose clients come through the router."""
    jaas = "org.apache.kafka.common.security"
    return f"""\
listeners=SASL_SSL://127.0.0.{10 + number}:9092,INTERNAL://127.0.0.{10 + number}:19091
advertised.listeners=SASL_SSL://b{number}.{zone}:9092,INTERNAL://127.0.0.{10 + number}:19091
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=PLAIN,OAUTHBEARER
listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}.plain.PlainLoginModule required user_API_KEY="API_SECRET";
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={jaas}.oauthbearer.OAuthBearerLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location=service.pem
"""


def without_tls(directory: Path) -> None:
    """Leave out what the recipe says can be left out."""
    toml = (directory / "kproxy.toml").read_text().splitlines()
    (directory / "kproxy.toml").write_text("\n".join(line for line in toml if not line.startswith("tls-")))
    for name in ("librdkafka.conf", "client.properties"):
        lines = (directory / name).read_text().replace("SASL_SSL", "SASL_PLAINTEXT").splitlines()
        (directory / name).write_text("\n".join(line for line in lines if not line.startswith("ssl.")) + "\n")
