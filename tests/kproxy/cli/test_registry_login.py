"""A registry that requires a TLS client certificate and a login, both configured with options."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dissectors.records import encode
from kproxy.development_ca import certificates, store
from tests.kproxy.capture.packets import SYN, pcap, tcp_packet
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request
from tests.serialized import ORDER, ORDER_SCHEMA


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.pem, cert.pem and key.pem."""
    directory = tmp_path_factory.mktemp("pem")
    store.save(directory, certificates.create(["127.0.0.1"], 1))
    return directory


@pytest.fixture
def registry(pem: Path) -> Iterator[str]:
    """The URL of a registry that accepts one token and one user."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_authorized = self.headers["Authorization"] in ("Bearer planted", "Basic YW5uOnBsYW50ZWQ=")  # ann:planted
            body = json.dumps({"schema": ORDER_SCHEMA} if self.path == "/schemas/ids/2" else []).encode()
            self.send_response(200 if is_authorized else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    tls_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pem / "ca.pem")
    tls_context.load_cert_chain(pem / "cert.pem", pem / "key.pem")
    tls_context.verify_mode = ssl.CERT_REQUIRED
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client without a certificate
        server.socket = tls_context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


CERTIFICATE = ["--registry-cert", "cert.pem", "--registry-key", "key.pem"]


@pytest.mark.parametrize(
    ("options", "secret", "problem"),
    [
        (["--registry-ca", "ca.pem", *CERTIFICATE], "planted", None),
        (["--registry-ca", "ca.pem", *CERTIFICATE, "--registry-user", "ann"], "planted", None),
        (["--registry-ca", "ca.pem", *CERTIFICATE], "planted-wrong", "answered with status 401: check the credentials"),
        (["--registry-ca", "ca.pem"], "planted", "cannot be queried: "),
        (CERTIFICATE, "planted", "presented a certificate that was rejected: "),
    ],
    ids=["token", "user", "wrong token", "no certificate", "unknown CA"],
)
def test_registry_login_succeeds_or_reports_the_problem(
    kproxy: Run, tmp_path: Path, pem: Path, registry: str, options: list[str], secret: str, problem: str | None
) -> None:
    (tmp_path / "secret").write_text(f"{secret}\n")
    partition = {"index": 0, "records": encode([{"records": [{"value": ORDER}]}])}
    topic = {"name": "orders", "partition_data": [partition]}
    frame = request("Produce", 9, {"acks": 1, "timeout_ms": 100, "topic_data": [topic]})
    (tmp_path / "a.pcap").write_bytes(pcap([tcp_packet(0, flags=SYN), tcp_packet(1, frame)]))
    login_options = [pem / option if option.endswith(".pem") else option for option in options]
    result = kproxy("dissect", "--json", "--payloads", "--registry", registry, *login_options,
                  "--registry-secret-file", tmp_path / "secret", tmp_path / "a.pcap")  # fmt: skip
    [body] = [line["body"] for line in map(json.loads, result.stdout.splitlines()) if "body" in line]
    value = body["topic_data"][0]["partition_data"][0]["records"][0]["records"][0]["value"]
    if problem is None:
        assert value["data"] == {"id": 17, "note": "hi", "tags": ["a", "b"]}
    else:
        assert value["problem"].startswith(f"the registry {registry.removeprefix('https://')} {problem}")
    assert "planted" not in result.stdout + result.stderr
