"""Real clients that exchange records over TLS with any SASL mechanism, or fail to do so."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.peers import clients
from tests.peers.clients.secure_clients import RECORDS, RECORDS_PER_PARTITION, Login
from tests.peers.kafka import Tools
from tests.peers.processes import dies_with_us
from tests.peers.toolchains import go_program, skip

CLIENTS = ("confluent", "kafka_python", "franz", "java")
_SECURITY = "org.apache.kafka.common.security"
_BEARER = f"{_SECURITY}.oauthbearer"


def exchange(client: str, tools: Tools, login: Login, directory: Path, hosts: Path | None = None) -> str:
    """Produce to the topic and consume from it, with the library of the client.

    Args:
        client: One of `CLIENTS`; `java` is Kafka's own client, of the release of `tools`.
        tools: Kafka's command-line tools.
        login: The address and the credentials.
        directory: The directory for configuration files.
        hosts: A file that replaces /etc/hosts for the client; clients other than `java` need root for it.

    Returns:
        ``ok`` if every record was consumed, otherwise the client's output.
    """
    if hosts is not None and client == "java":
        login = replace(login, jvm=(*login.jvm, f"-Djdk.net.hosts.file={hosts}"))
    command = dies_with_us([
        *(_hosts_prefix(hosts) if hosts is not None and client != "java" else []),
        *_command(client, tools, login, directory),
    ])  # fmt: skip
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
    is_complete = "Percentiles: 50th" in process.stdout if client == "java" else process.stdout.strip() == str(RECORDS)
    return "ok" if process.returncode == 0 and is_complete else process.stdout + process.stderr


@contextlib.contextmanager
def run_attempts(client: str, tools: Tools, login: Login, directory: Path) -> Iterator[None]:
    """Run `exchange` in the background during the block, for a client that may retry forever; kill it at the end."""
    command = dies_with_us(_command(client, tools, login, directory))
    discard = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=discard, stdout=discard, stderr=discard)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _command(client: str, tools: Tools, login: Login, directory: Path) -> list[str]:
    if reason := clients.missing(client):
        skip(reason)
    if client == "java":
        return _java_command(tools, login, directory)
    if client == "franz":
        return [str(go_program("secure")), login.as_json()]
    return [sys.executable, "-m", "tests.peers.clients.secure_clients", client, login.as_json()]


def _hosts_prefix(hosts: Path) -> list[str]:
    """Return a command prefix for a mount namespace with a different /etc/hosts."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root, to mount another /etc/hosts")
    return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]


def _java_command(tools: Tools, login: Login, directory: Path) -> list[str]:
    """Return the command of Kafka's latency tool: a producer and a consumer in one JVM, one record at a time."""
    settings = directory / f"{login.topic}.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in java_settings(login, directory).items()))
    arguments = [login.bootstrap, login.topic, str(RECORDS_PER_PARTITION), "1", "100", str(settings)]
    if not tools.release.startswith("3."):
        names = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")
        arguments = [option for name, value in zip(names, arguments, strict=True) for option in (f"--{name}", value)]
    allowed_urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={_token_file(login, directory).as_uri()}"
    return tools.command("end-to-end-latency", *arguments, jvm=[allowed_urls, *login.jvm])


def java_settings(login: Login, directory: Path) -> dict[str, str]:
    """Return the properties of Kafka's Java clients for a login; write the files that they name to the directory."""
    timeout = str(int(1000 * login.seconds))
    settings = {"security.protocol": login.protocol, "default.api.timeout.ms": timeout}
    settings |= {"request.timeout.ms": timeout, "delivery.timeout.ms": timeout, "linger.ms": "0"}
    if login.ca:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.ca}
    if login.certificate:
        keystore = directory / f"{login.topic}.pem"
        keystore.write_bytes(Path(login.key).read_bytes() + Path(login.certificate).read_bytes())
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
    if not login.mechanism:
        return settings
    jaas_options = f'required username="{login.user}" password="{login.secret}";'
    settings["sasl.mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        token = _token_file(login, directory)
        token.write_text(login.secret)
        settings["sasl.jaas.config"] = f"{_BEARER}.OAuthBearerLoginModule required;"
        settings["sasl.login.callback.handler.class"] = f"{_BEARER}.OAuthBearerLoginCallbackHandler"
        settings["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
    elif login.mechanism == "PLAIN":
        settings["sasl.jaas.config"] = f"{_SECURITY}.plain.PlainLoginModule {jaas_options}"
    else:
        settings["sasl.jaas.config"] = f"{_SECURITY}.scram.ScramLoginModule {jaas_options}"
    return settings


def _token_file(login: Login, directory: Path) -> Path:
    return directory / f"{login.topic}.jwt"
