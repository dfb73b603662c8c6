"""Multiple listeners and advertised addresses of the built-in broker, set on the command line."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dissectors import schemas
from dissectors.wire.decode import decode
from dissectors.wire.layout import layout
from tests.kproxy.broker.security.certificates import tls_context, write_self_signed
from tests.kproxy.cli.test_relay import read_trace
from tests.kproxy.frames import request

BOOTSTRAP_LINE = re.compile(
    r"built-in Kafka \S+: connect clients with bootstrap\.servers=(\S+)(?: security\.protocol=(\S+))?\n"
)


@contextmanager
def running_broker(
    tmp_path: Path, listeners: int, *args: object
) -> Iterator[list[tuple[list[tuple[str, int]], str | None]]]:
    """Run a built-in broker; yield the addresses and the security protocol that it prints for each listener."""
    command = [sys.executable, "-m", "kproxy", "--upstream", "-q", *map(str, args)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        bootstraps = []
        for _ in range(listeners):
            line = process.stderr.readline()
            match = BOOTSTRAP_LINE.fullmatch(line)
            assert match is not None, line
            servers = [server.rpartition(":") for server in match[1].split(",")]
            bootstraps.append(([(host, int(port)) for host, _, port in servers], match[2]))
        yield bootstraps
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()


class Client:
    """A blocking client with one connection."""

    def __init__(self, port: int, certificate: Path | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        if certificate is not None:
            self._socket = tls_context(certificate).wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.close()
        self._socket.close()

    def __call__(self, api: str, version: int, body: dict[str, Any]) -> Any:
        api_info = schemas.api_by_name(api)
        assert api_info is not None
        self._socket.sendall(request(api, version, body))
        frame = self._stream.read(int.from_bytes(self._stream.read(4), "big"))
        header = decode(layout("ResponseHeader", schemas.header_versions(api_info.key, version)[1]), frame)
        return decode(layout(f"{api}Response", version), frame, header.end).values

    def log_in(self) -> int:
        assert self("SaslHandshake", 1, {"mechanism": "PLAIN"})["error_code"] == 0
        return int(self("SaslAuthenticate", 1, {"auth_bytes": b"\0alice\0secret"})["error_code"])

    def brokers(self) -> list[tuple[str, int]]:
        return [(broker["host"], broker["port"]) for broker in self("Metadata", 9, {"topics": []})["brokers"]]


@pytest.mark.slow
def test_plaintext_tls_and_sasl_listeners_work_side_by_side(tmp_path: Path) -> None:
    certificate = write_self_signed(tmp_path / "both.pem")
    protocols = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    listen = [word for protocol in protocols for word in ("--listen", f"{protocol}://127.0.0.1:0")]
    security = "--tls-cert", certificate, "--tls-key", certificate, "--sasl", "PLAIN", "--user", "alice:secret"
    with running_broker(tmp_path, 4, *listen, "--brokers", 2, *security) as listeners:
        assert [protocol for _, protocol in listeners] == protocols
        for servers, protocol in listeners:
            assert protocol is not None
            assert len(servers) == 2
            for _, port in servers:
                with Client(port, certificate if protocol.endswith("SSL") else None) as client:
                    if protocol.startswith("SASL"):
                        assert client.log_in() == 0
                    assert client.brokers() == servers
    opened_listeners = {line["listener"] for line in read_trace(tmp_path / "kproxy-trace") if line["kind"] == "open"}
    assert opened_listeners == {f"{host}:{port}" for servers, _ in listeners for host, port in servers}


@pytest.mark.slow
def test_metadata_contains_the_advertised_address(tmp_path: Path) -> None:
    port = free_port()
    options = "--advertised", "kafka.example:19092", "--no-trace"
    with running_broker(tmp_path, 1, "--listen", f"127.0.0.1:{port}", *options) as listeners:
        assert listeners == [([("kafka.example", 19092)], None)]
        with Client(port) as client:
            assert client.brokers() == [("kafka.example", 19092)]


@pytest.mark.slow
def test_every_listener_can_advertise_its_own_address(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    with running_broker(
        tmp_path, 2,
        "--listen", f"internal://127.0.0.1:{ports[0]}", "--listen", f"EXTERNAL://127.0.0.1:{ports[1]}",
        "--advertised", "EXTERNAL://kafka.example:9094", "--no-trace",
        "--config", "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    ) as listeners:  # fmt: skip
        inside, outside = [("127.0.0.1", ports[0])], [("kafka.example", 9094)]
        assert listeners == [(inside, "PLAINTEXT"), (outside, "PLAINTEXT")]
        for port, expected in zip(ports, (inside, outside), strict=True):
            with Client(port) as client:
                assert client.brokers() == expected


@pytest.mark.slow
def test_single_advertised_address_belongs_to_the_first_broker(tmp_path: Path) -> None:
    listen = "--listen", "127.0.0.1:0", "--brokers", 3, "--no-trace"
    with running_broker(tmp_path, 1, *listen, "--advertised", "k:9000") as listeners:
        assert listeners == [([("k", 9000), ("k", 9001), ("k", 9002)], None)]
    advertised = [word for name in "abc" for word in ("--advertised", f"{name}:9000")]
    with running_broker(tmp_path, 1, *listen, *advertised) as listeners:
        assert listeners == [([("a", 9000), ("b", 9000), ("c", 9000)], None)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
