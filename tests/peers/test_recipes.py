"""The recipes of docs/deployment.md for clusters with TLS work as printed with real Kafka."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.peers.recipe import Machine, Recipe, create_authority, create_certificate, missing, start_brokers
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

NUMBERS = sorted(map(str, range(1, 1001)))
SCRAM = Recipe("A cluster with TLS and SCRAM")
MANAGED = Recipe("A managed service")


@contextmanager
def run_machine(directory: Path, names: Mapping[str, str], **environment: str) -> Iterator[Machine]:
    if reason := missing():
        skip(reason)
    host = Machine(directory, names, environment)
    try:
        yield host
    finally:
        host.close()


def write_files(recipe: Recipe, directory: Path) -> None:
    for name, text in recipe.files.items():
        if " " not in name:
            (directory / name).write_text(text)


def run_clients(client_machine: Machine, recipe: Recipe, reader: str) -> None:
    """Run the recipe's client commands, which write and read records."""
    client_machine.run(recipe.command("kafka-topics.sh "))
    client_machine.run(recipe.command("seq "))
    output = client_machine.run(recipe.command(reader)).splitlines()
    assert sorted(line for line in output if line.isdecimal()) == NUMBERS


def stop_and_read(proxy: subprocess.Popen[bytes], directory: Path) -> list[Line]:
    """Stop the proxy with Ctrl-C and return the lines of its trace."""
    proxy.send_signal(signal.SIGINT)
    assert proxy.wait(60) == 0
    return read_lines(directory / "kproxy-trace")


def principals(lines: list[Line]) -> set[str | None]:
    return {line.get("principal") for line in lines if line.get("api") in ("Produce", "Fetch", "CreateTopics")}


def test_recipe_for_a_cluster_with_tls_and_scram_works(tmp_path: Path) -> None:
    names = {f"broker-{number}.example.com": f"127.0.0.{10 + number}" for number in (1, 2, 3)}
    request, sign = SCRAM.command("openssl req"), SCRAM.command("openssl x509")
    with run_machine(tmp_path, {"kproxy.example.com": "127.0.0.10", **names}) as host:
        write_files(SCRAM, tmp_path)
        create_authority(host)
        for number in (1, 2, 3):
            create_certificate(host, request, sign, f"broker-{number}")
        settings = {
            number: SCRAM.files["server.properties of broker 1"].replace("broker-1", f"broker-{number}")
            + f"listeners=SASL_SSL://broker-{number}.example.com:9093\n"
            for number in (1, 2, 3)
        }
        start_brokers(host, settings, {"broker": "broker-secret", "alice": "alice-secret"})
        host.run(f"{request} && {sign}")
        proxy = host.start(SCRAM.command("kproxy --config-file"), ready="listening on")
        run_clients(host, SCRAM, "kafka-console-consumer.sh ")
        connection_options = "--bootstrap-server kproxy.example.com:9093 --command-config client.properties"
        offsets = host.run(
            f"kafka-get-offsets.sh {connection_options} --topic orders"
        )  # this queries all three brokers
        (tmp_path / "wrong.properties").write_text(SCRAM.files["client.properties"].replace("alice-secret", "wrong"))
        host.run(SCRAM.command("kafka-topics.sh ").replace("client.properties", "wrong.properties"), status=1)
        lines = stop_and_read(proxy, tmp_path)
        filter_command, second_filter_command, findings_command = (
            command for command in SCRAM.commands if command.startswith("kproxy dissect")
        )
        filtered_output, second_filtered_output, findings = (
            host.run(filter_command),
            host.run(second_filter_command),
            host.run(findings_command, status=1),
        )
    assert principals(lines) == {"User:alice"}
    assert sum(int(line.rpartition(":")[2]) for line in offsets.splitlines()) == 1000
    assert {line["server"] for line in lines if line.get("api") == "ListOffsets"} == {
        f"127.0.0.{10 + number}:9093" for number in (1, 2, 3)
    }
    listeners = {line["listener"] for line in lines if line["kind"] == "open"}
    assert listeners == {f"127.0.0.10:{port}" for port in (9093, 9096, 9097)}
    assert {finding["code"] for finding in all_findings(lines) if finding["code"][0] in "LX"} == {"X008"}
    assert "Produce" in filtered_output
    assert "orders" in filtered_output
    assert "Fetch" not in filtered_output
    assert "Produce" not in second_filtered_output
    assert "X008 sasl-auth-failed" in findings
    assert "alice-secret" not in "".join(map(str, lines)) + filtered_output + findings


@pytest.mark.parametrize("tls", [True, False], ids=["tls to kproxy", "plaintext to kproxy"])
def test_recipe_for_a_managed_service_works(tmp_path: Path, tls: bool) -> None:
    zone = "cluster-1.example.cloud"
    names = [f"{name}.{zone}" for name in ("bootstrap", "b1", "b2")]
    request, sign = SCRAM.command("openssl req"), SCRAM.command("openssl x509")
    environment = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}  # replaces the CAs of the system
    with run_machine(tmp_path, dict.fromkeys(names, "127.0.0.20"), **environment) as host:
        write_files(MANAGED, tmp_path)
        create_authority(host)
        create_certificate(host, request.replace("kproxy.example.com", f"*.{zone}"), sign, "service")
        start_brokers(host, {number: service_settings(number, zone) for number in (1, 2)})
        routes = [f"{names[number]}=127.0.0.{10 + max(number, 1)}:9092" for number in range(3)]
        host.start(f"{sys.executable} -m tests.peers.sni_router 127.0.0.20:9092 {' '.join(routes)}", ready="routing")
        if tls:
            host.run(MANAGED.command("kproxy ca create"))
        else:
            remove_tls(tmp_path)
        proxy = host.start(MANAGED.command("kproxy --config-file"), ready="listening on")
        run_clients(host, MANAGED, "kcat ")
        bearer_options = "-X sasl.mechanism=OAUTHBEARER -X enable.sasl.oauthbearer.unsecure.jwt=true "
        host.run(
            MANAGED.command("kcat ") + f" -X sasl.username= {bearer_options} -X sasl.oauthbearer.config=principal=bob"
        )
        lines = stop_and_read(proxy, tmp_path)
    assert principals(lines) == {"User:API_KEY", "User:bob"}
    assert {line.get("tls", False) for line in lines if line["kind"] == "open"} == {tls}
    router_log = next(path.read_text() for path in tmp_path.glob("log-*.txt") if "routing" in path.read_text())
    assert {f"asked for {name}" for name in names} == set(router_log.splitlines()) - {"routing"}
    assert {finding["code"] for finding in all_findings(lines) if finding["code"][0] in "LX"} <= {"X005"}


def service_settings(number: int, zone: str) -> str:
    """Return the settings of a broker whose clients connect through the router."""
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


def remove_tls(directory: Path) -> None:
    """Remove the optional TLS settings of the recipe."""
    toml = (directory / "kproxy.toml").read_text().splitlines()
    (directory / "kproxy.toml").write_text("\n".join(line for line in toml if not line.startswith("tls-")))
    for name in ("librdkafka.conf", "client.properties"):
        lines = (directory / name).read_text().replace("SASL_SSL", "SASL_PLAINTEXT").splitlines()
        (directory / name).write_text("\n".join(line for line in lines if not line.startswith("ssl.")) + "\n")
