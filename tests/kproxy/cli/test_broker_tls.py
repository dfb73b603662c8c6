"""The built-in broker with TLS as a user runs it: the relay terminates TLS, so the trace contains plaintext."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dissectors import schemas
from dissectors.wire.decode import decode
from dissectors.wire.layout import layout
from kproxy.development_ca import certificates, store
from tests.kproxy.cli.conftest import Run
from tests.kproxy.cli.test_broker import RunningBroker, running_broker
from tests.kproxy.cli.test_relay import read_trace
from tests.kproxy.frames import request

FORBIDDEN = 29  # TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ca")
    store.save(directory, certificates.create(["localhost"], 10))
    return directory


def tls_options(ca: Path) -> tuple[object, ...]:
    return "--tls-cert", ca / "cert.pem", "--tls-key", ca / "key.pem"


def client_context(ca: Path, *, with_certificate: bool = False) -> ssl.SSLContext:
    tls_context = ssl.create_default_context(cafile=ca / "ca.pem")
    if with_certificate:
        tls_context.load_cert_chain(ca / "cert.pem", ca / "key.pem")
    return tls_context


class Client:
    """A client with one TLS connection."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock

    def request(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """Send a request; return the body of the response."""
        api_info = schemas.api_by_name(api)
        assert api_info is not None
        self._socket.sendall(request(api, version, body))
        frame = self._read(int.from_bytes(self._read(4), "big"))
        header = decode(layout("ResponseHeader", schemas.header_versions(api_info.key, version)[1]), frame)
        return decode(layout(f"{api}Response", version), frame, header.end).values

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return data

    def log_in(self, user: str, password: str) -> int:
        """Log in with PLAIN; return the error code."""
        assert self.request("SaslHandshake", 1, {"mechanism": "PLAIN"})["error_code"] == 0
        token = f"\0{user}\0{password}".encode()
        return int(self.request("SaslAuthenticate", 2, {"auth_bytes": token})["error_code"])


@contextmanager
def connect(kproxy: RunningBroker, tls: ssl.SSLContext, node: int = 0) -> Iterator[Client]:
    with (
        socket.create_connection(("localhost", kproxy.ports[node]), timeout=10) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        yield Client(sock)


@pytest.mark.slow
def test_trace_of_a_login_over_tls_is_plaintext(ca: Path, tmp_path: Path) -> None:
    key_log = tmp_path / "keys"
    login = ("--sasl", "PLAIN", "--user", "alice:sesame", "--tls-key-log", key_log)
    with running_broker(tmp_path, *tls_options(ca), *login) as kproxy:
        [port] = kproxy.ports
        with connect(kproxy, client_context(ca)) as client:
            assert client.log_in("alice", "sesame") == 0
            [broker] = client.request("Metadata", 9, {"topics": []})["brokers"]
            assert (broker["host"], broker["port"]) == ("localhost", port)
        with connect(kproxy, client_context(ca)) as client:
            assert client.log_in("alice", "wrong-sesame") == 58
        out, _ = kproxy.end()
    lines = read_trace(tmp_path / "kproxy-trace")
    assert {line["tls"] for line in lines if line["kind"] == "open"} == {True}
    assert [line["principal"] for line in lines if line.get("api") == "Metadata"] == ["User:alice"] * 2
    [finding] = [finding for line in lines for finding in line.get("findings") or () if finding["code"][0] == "X"]
    assert finding["code"] == "X008"
    assert f"at localhost:{port} failed" in str(finding["message"])
    assert {line["server"] for line in lines} == {f"localhost:{port}"}
    assert "CLIENT_TRAFFIC_SECRET_0" in key_log.read_text()
    assert "sesame" not in out + str(lines)


@pytest.mark.slow
def test_sighup_renews_the_certificate_of_every_node(ca: Path, tmp_path: Path) -> None:
    config_file, current_files, renewed_files = tmp_path / "kproxy.toml", tmp_path / "used", tmp_path / "later"
    store.save(renewed_files, certificates.create(["localhost"], 10))
    shutil.copytree(ca, current_files)
    config_file.write_text('detail = "full"\n')
    with running_broker(tmp_path, *tls_options(current_files), "--brokers", 2, "--config-file", config_file) as kproxy:
        with connect(kproxy, client_context(ca)) as early_client:
            for name in ("cert.pem", "key.pem"):
                shutil.copy(renewed_files / name, current_files / name)
            config_file.write_text("fsync = true")
            kproxy.process.send_signal(signal.SIGHUP)
            messages = [kproxy.read_stderr_line() for _ in range(6)]  # the list of commands comes first
            assert "restart kproxy to change --detail, --fsync" in messages[1]
            assert sum(line.startswith("listening on ") for line in messages) == 4
            early_client.request("ApiVersions", 0, {})
            for node in (0, 1):
                with connect(kproxy, client_context(renewed_files), node) as client:
                    client.request("ApiVersions", 0, {})
        config_file.write_text("upstream-tls = true")
        kproxy.process.send_signal(signal.SIGHUP)
        assert "--upstream-tls cannot be used with the built-in broker" in kproxy.read_stderr_line()
        assert "not reloaded" in kproxy.read_stderr_line()
        kproxy.end()


@pytest.mark.slow
def test_subject_of_a_client_certificate_is_the_principal(ca: Path, tmp_path: Path) -> None:
    acls = ("--acls", "--super-user", "User:CN=alice,O=Example\\, Inc", "--topic", "orders")
    for name in ("alice", "mallory"):
        store.save(tmp_path / name, certificates.create(["localhost"], 1))
    alice = _write_self_signed(tmp_path / "alice")
    client_cas = tmp_path / "clients.pem"
    client_cas.write_bytes(alice.read_bytes() + (tmp_path / "mallory" / "ca.pem").read_bytes())
    with running_broker(tmp_path, *tls_options(ca), "--tls-client-ca", client_cas, *acls) as kproxy:
        codes = []
        for certificate, key in ((alice, alice), (tmp_path / "mallory/cert.pem", tmp_path / "mallory/key.pem")):
            tls = client_context(ca)
            tls.load_cert_chain(certificate, key)
            with connect(kproxy, tls) as client:
                [topic] = client.request("Metadata", 9, {"topics": [{"name": "orders"}]})["topics"]
                codes.append(topic["error_code"])
        assert codes == [0, FORBIDDEN]
        with pytest.raises((ssl.SSLError, ConnectionError)), connect(kproxy, client_context(ca)) as client:
            client.request("Metadata", 9, {"topics": []})
        kproxy.end()
    lines = read_trace(tmp_path / "kproxy-trace")
    findings = [(line["code"], str(line["message"])) for line in lines if line["kind"] == "finding"]
    assert [message for code, message in findings if code == "X022"] == [
        "TLS with client 127.0.0.1 failed: it sent no client certificate"
    ]
    assert {code for code, _ in findings} <= {"X022", "X014"}


def _write_self_signed(directory: Path) -> Path:
    """Write a self-signed certificate and its key for a subject with several attributes."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    original = x509.load_pem_x509_certificate((directory / "cert.pem").read_bytes())
    key = serialization.load_pem_private_key((directory / "key.pem").read_bytes(), None)
    attributes = ((NameOID.ORGANIZATION_NAME, "Example, Inc"), (NameOID.COMMON_NAME, "alice"))
    name = x509.Name([x509.NameAttribute(*attribute) for attribute in attributes])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(original.public_key())
        .serial_number(1)
        .not_valid_before(original.not_valid_before_utc)
        .not_valid_after(original.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())  # type: ignore[arg-type]
    )
    path = directory / "alice.pem"
    path.write_bytes((directory / "key.pem").read_bytes() + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.slow
def test_three_brokers_serve_tls(ca: Path, tmp_path: Path) -> None:
    with running_broker(tmp_path, "--brokers", 3, *tls_options(ca)) as kproxy:
        for node in range(3):
            with connect(kproxy, client_context(ca), node) as client:
                brokers = client.request("Metadata", 9, {"topics": []})["brokers"]
                assert [(broker["host"], broker["port"]) for broker in brokers] == [
                    ("localhost", port) for port in kproxy.ports
                ]
        assert "commands: " in kproxy.read_stderr_line()
        assert kproxy.enter("stop 2") == "broker 2 is down"
        with pytest.raises((ssl.SSLError, ConnectionError)), connect(kproxy, client_context(ca), 1) as client:
            client.request("Metadata", 9, {"topics": []})
        assert kproxy.read_stderr_line().startswith(
            f"kproxy: upstream localhost:{kproxy.ports[1]} is unreachable: connection refused"
        )
        assert kproxy.enter("start 2") == "broker 2 is up"
        with connect(kproxy, client_context(ca), 1) as client:
            assert len(client.request("Metadata", 9, {"topics": []})["brokers"]) == 3
        kproxy.end()
    open_lines = [line for line in read_trace(tmp_path / "kproxy-trace") if line["kind"] == "open"]
    assert [line["server"] for line in open_lines] == [f"localhost:{kproxy.ports[node]}" for node in (0, 1, 2, 1, 1)]


@pytest.mark.slow
def test_plaintext_and_tls_listeners_coexist(ca: Path, tmp_path: Path) -> None:
    """`RunningBroker` expects a single bootstrap line, so this test starts the process and reads both lines itself."""
    import re
    import subprocess
    import sys

    listeners = ("--listen", "PLAINTEXT://0", "--listen", "SSL://0")
    command = [sys.executable, "-m", "kproxy", "--upstream", *listeners, *map(str, tls_options(ca)), "--no-control"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=tmp_path
    ) as process:
        assert process.stderr is not None
        ports = {}
        while len(ports) < 2:
            match = re.search(r"localhost:(\d+) security\.protocol=(\w+)", process.stderr.readline())
            assert match is not None
            ports[match[2]] = int(match[1])
        api_versions = request("ApiVersions", 0, {})
        with socket.create_connection(("localhost", ports["PLAINTEXT"]), timeout=10) as plain:
            plain.sendall(api_versions)
            assert plain.recv(4)
        with (
            socket.create_connection(("localhost", ports["SSL"]), timeout=10) as plain,
            client_context(ca).wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(api_versions)
            assert client.recv(4)
        process.terminate()
        process.communicate(timeout=20)
    lines = read_trace(tmp_path / "kproxy-trace")
    assert [line.get("tls", False) for line in lines if line["kind"] == "open"] == [False, True]
    assert [line["api"] for line in lines if line["kind"] == "response"] == ["ApiVersions"] * 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--advertise",), "--advertise is for other brokers: the built-in broker advertises the addresses of"),
        (("--advertise", "kafka.example"), "--advertise is for other brokers: "),
        (("--advertise", "--advertised", "k:1"), "--advertise is for other brokers: "),
    ],
)
def test_advertise_is_rejected_with_the_built_in_broker(kproxy: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = kproxy("--listen", "0", "--upstream", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"kproxy: {reason}")
    assert result.stderr.count("\n") == 1
