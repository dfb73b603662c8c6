"""A proxy that runs out of file descriptors prints one message, keeps open connections working, and recovers."""

import json
import os
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dissectors.messages.message import read_response
from kproxy.development_ca import certificates, store
from tests.kproxy.cli.test_http import ServingProxy
from tests.kproxy.cli.test_relay import ANSWER, REQUEST, Broker, Proxy, broker, inspectors, running, until
from tests.kproxy.frames import request, response

__all__ = ["broker"]  # a fixture

MESSAGE = (
    "cannot accept more connections for now: too many open files; open connections are not affected; "
    "raise the limit (ulimit -n)"
)
METADATA_REQUEST = request("Metadata", 9, {"topics": None}, correlation_id=7)


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ca")
    store.save(directory, certificates.create(["localhost"], 10))
    return directory


@contextmanager
def start_proxy(tmp_path: Path, broker: Broker, *options: object) -> Iterator[tuple[Proxy, ServingProxy]]:
    """Start a proxy with two listeners and the HTTP endpoint."""
    listen = 2 * ("--listen", "127.0.0.1:0")
    upstream = 2 * ("--upstream", f"127.0.0.1:{broker.port}")
    with running(tmp_path, *upstream, "--advertise", "--http", "127.0.0.1:0", "-q", *options, listen=listen) as proxy:
        yield proxy, ServingProxy(proxy)


def limit_descriptors(proxy: Proxy, descriptor_count: int | None) -> None:
    """Limit the open files of the proxy; None restores the maximum."""
    _, hard_limit = resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (descriptor_count or hard_limit, hard_limit))


def response_to(client: socket.socket, frame: bytes = REQUEST) -> bytes:
    client.sendall(frame)
    return read_frame(client)


def read_frame(client: socket.socket) -> bytes:
    frame = client.recv(4, socket.MSG_WAITALL) if not isinstance(client, ssl.SSLSocket) else client.recv(4)
    size = 4 + int.from_bytes(frame, "big")
    while len(frame) < size:
        chunk = client.recv(size - len(frame))
        assert chunk
        frame += chunk
    return frame


def advertised_ports(client: socket.socket, broker: Broker, *ports: int) -> list[int]:
    """Return the ports that the client receives if the broker lists brokers with these ports."""
    brokers = [{"node_id": number, "host": "127.0.0.1", "port": port} for number, port in enumerate(ports, 1)]
    broker.answer = response("Metadata", 9, {"brokers": brokers}, correlation_id=7)
    brokers_in_response = read_response(response_to(client, METADATA_REQUEST), 3, 9).body["brokers"]
    broker.answer = ANSWER
    return [entry["port"] for entry in brokers_in_response]


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "TLS"])
def test_descriptors_are_reserved_for_everything_but_clients(
    tmp_path: Path, ca: Path, broker: Broker, tls: bool
) -> None:
    options = ("--tls-cert", ca / "cert.pem", "--tls-key", ca / "key.pem") if tls else ()
    tls_context = ssl.create_default_context(cafile=ca / "ca.pem")
    with (
        start_proxy(tmp_path, broker, *options) as (proxy, http),
        Broker() as other,
        ExitStack() as stack,
    ):

        def connect(port: int = proxy.port) -> socket.socket:
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            return stack.enter_context(tls_context.wrap_socket(plain, server_hostname="localhost")) if tls else plain

        first = connect()
        assert response_to(first) == ANSWER
        limit_descriptors(proxy, 120)
        clients = [first]
        late_answers: list[bytes] = []

        def wait_for_an_answer() -> None:
            late_answers.append(response_to(connect()))

        with ExitStack() as guard:
            thread = threading.Thread(target=wait_for_an_answer)
            guard.callback(thread.join)
            for _ in range(60):  # more than the proxy can serve
                client = socket.create_connection(("127.0.0.1", proxy.port), timeout=20)
                clients.append(stack.enter_context(client))
            proxy.wait_for_message(MESSAGE)
            until(lambda: http.health()[0] == 503)
            assert str(http.health()[1]["status"]).startswith("cannot accept connections")
            thread.start()
            # The reserve still allows a listener for a broker and another inspector.
            assert response_to(first) == ANSWER
            [port] = advertised_ports(first, broker, other.port)
            assert port != other.port
            os.kill(inspectors(proxy.process.pid)[0], signal.SIGKILL)
            proxy.wait_for_message("the inspector runs again")
            assert late_answers == []
            for client in clients[1:]:
                client.close()
        assert late_answers == [ANSWER]
        assert response_to(connect(port)) == ANSWER
        until(lambda: http.health()[0] == 200)
        other.stop()
        _, err = proxy.end()
        assert err.count("too many open files") == 1, err


@pytest.mark.slow
def test_proxy_recovers_after_running_out_of_descriptors(tmp_path: Path, broker: Broker) -> None:
    with start_proxy(tmp_path, broker) as (proxy, http), Broker() as other, proxy.connect() as first:
        assert response_to(first) == ANSWER
        limit_descriptors(proxy, 3)
        with proxy.connect() as waiting, socket.create_connection(("127.0.0.1", http.port), timeout=20) as probe:
            waiting.sendall(REQUEST)
            probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            proxy.wait_for_message(MESSAGE)
            assert advertised_ports(first, broker, other.port) == [other.port]  # no listener could be opened
            os.kill(inspectors(proxy.process.pid)[0], signal.SIGKILL)
            proxy.wait_for_message("it could not be started: too many open files")
            assert response_to(first) == ANSWER
            limit_descriptors(proxy, None)
            assert read_frame(waiting) == ANSWER
            with probe.makefile("rb") as stream:
                assert json.loads(stream.read().partition(b"\r\n\r\n")[2])["status"] == "ok"
            proxy.wait_for_message("the inspector runs again")
            until(lambda: advertised_ports(first, broker, other.port) != [other.port])
        other.stop()
        _, err = proxy.end()
        assert err.count("cannot accept more connections") == 1, err
        assert "no listener for broker" not in err
