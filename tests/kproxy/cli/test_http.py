"""The --http endpoint of a running proxy, and its notifications to a service manager."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kproxy.cli.test_relay import ANSWER, REQUEST, Broker, Proxy, broker, children, read_trace, running, until

__all__ = ["broker"]  # a fixture


class ServingProxy:
    """A running kproxy with --http."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        assert proxy.process.stderr is not None
        for line in proxy.process.stderr:
            proxy.printed.append(line)
            if line.startswith("health and metrics on http://"):
                self.port = int(line.rpartition(":")[2])
                return
        raise AssertionError("".join(proxy.printed))

    def get(self, path: str) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        client.request("GET", path)
        response = client.getresponse()
        status_and_body = response.status, response.read().decode()
        client.close()
        return status_and_body

    def health(self) -> tuple[int, dict[str, object]]:
        status, body = self.get("/healthz")
        return status, json.loads(body)

    def metrics(self) -> dict[tuple[str, tuple[str, ...]], float]:
        status, body = self.get("/metrics")
        assert status == 200
        return parse_metrics(body)


def parse_metrics(body: str) -> dict[tuple[str, tuple[str, ...]], float]:
    result: dict[tuple[str, tuple[str, ...]], float] = {}
    for family in text_string_to_metric_families(body):
        assert family.type != "unknown"
        for sample in family.samples:
            key = sample.name, tuple(sample.labels.values())
            assert key not in result
            result[key] = sample.value
    return result


def descendants(pid: int) -> list[int]:
    return [descendant for child in children(pid) for descendant in (child, *descendants(child))]


@contextmanager
def serving(tmp_path: Path, port: int, *args: object, **options: object) -> Iterator[ServingProxy]:
    with running(tmp_path, "--upstream", f"127.0.0.1:{port}", "--http", "127.0.0.1:0", "-q", *args, **options) as proxy:
        yield ServingProxy(proxy)


@pytest.mark.slow
def test_metrics_match_the_traffic_while_it_passes(tmp_path: Path, broker: Broker) -> None:
    frames = ("kproxy_frames_total", ("ApiVersions", "response"))
    with serving(tmp_path, broker.port) as served:
        scraped: list[float] = []
        stopped = threading.Event()

        def scrape() -> None:
            while not stopped.is_set():
                scraped.append(served.metrics().get(frames, 0))
                time.sleep(0.05)

        thread = threading.Thread(target=scrape)
        thread.start()
        for _ in range(30):
            served.proxy.send_requests(20)
        until(lambda: served.metrics().get(frames) == 600)
        stopped.set()
        thread.join()
        metrics = served.metrics()
        served.proxy.end()
    assert scraped == sorted(scraped)
    assert metrics["kproxy_connections_accepted_total", ()] == 30
    assert metrics["kproxy_connections_refused_total", ()] == 0
    for direction, frame in (("request", REQUEST), ("response", ANSWER)):
        assert metrics["kproxy_relayed_bytes_total", (direction,)] == 600 * len(frame)
        assert metrics["kproxy_frames_total", ("ApiVersions", direction)] == 600
        assert metrics["kproxy_frame_bytes_total", ("ApiVersions", direction)] == 600 * len(frame)
    latencies = [line["latency_us"] for line in read_trace(tmp_path / "kproxy-trace") if line["kind"] == "response"]
    assert metrics["kproxy_request_duration_seconds_count", ("ApiVersions",)] == len(latencies) == 600
    total = metrics["kproxy_request_duration_seconds_sum", ("ApiVersions",)]
    assert abs(total - sum(map(int, latencies)) / 1e6) < 1e-6  # type: ignore[call-overload]
    assert metrics["kproxy_requests_in_flight", ()] == 0
    assert (metrics["kproxy_inspector_up", ()], metrics["kproxy_inspector_restarts_total", ()]) == (1, 0)
    names = {label for _, labels in metrics for label in labels}
    assert not [label for label in names if "127.0.0.1" in label or "tester" in label]


@pytest.mark.slow
def test_counts_findings_and_requests_in_flight(tmp_path: Path, broker: Broker) -> None:
    broker.answer = b""  # never responds
    with serving(tmp_path, broker.port) as served, served.proxy.connect() as client:
        client.sendall(REQUEST[:3] + bytes([REQUEST[3] + 2]) + REQUEST[4:] + b"\xab\xcd")
        until(lambda: served.metrics().get(("kproxy_requests_in_flight", ())) == 1)
        metrics = served.metrics()
        assert metrics["kproxy_connections_open", ()] == 1
        assert sum(value for (name, _), value in metrics.items() if name == "kproxy_findings_total") >= 1


@pytest.mark.slow
def test_http_server_answers_many_scrapes_despite_slow_clients(tmp_path: Path, broker: Broker) -> None:
    with serving(tmp_path, broker.port) as served:
        slow_connections = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(300)]
        for connection in slow_connections:
            with suppress(OSError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        with ThreadPoolExecutor(40) as threads:
            scrapes = [threads.submit(served.metrics) for _ in range(200)]
            served.proxy.send_requests(50)
            assert all(scrape.result() for scrape in scrapes)
        for connection in slow_connections:
            connection.close()
        assert served.health()[0] == 200


@pytest.mark.slow
def test_proxy_stays_ready_after_its_inspector_is_killed(tmp_path: Path, broker: Broker) -> None:
    with serving(tmp_path, broker.port) as served:
        assert served.health() == (
            200,
            {
                "status": "ok",
                "listening": [f"127.0.0.1:{served.proxy.port}"],
                "unreachable": {},
                "inspector": "running",
                "inspector_lag_s": 0.0,
                "trace": "written",
                "trace_lost_lines": 0,
            },
        )
        for process in descendants(served.proxy.process.pid):
            os.kill(process, signal.SIGKILL)
        until(lambda: served.health()[1]["inspector"] == "stopped")  # although nothing is relayed
        assert served.health()[0] == 200
        served.proxy.send_requests(3)
        until(lambda: served.metrics()["kproxy_relayed_bytes_total", ("request",)] == 3 * len(REQUEST))
        metrics = served.metrics()
        assert metrics["kproxy_inspector_up", ()] == 0
        assert metrics["kproxy_inspector_missed_bytes_total", ()] == 3 * (len(REQUEST) + len(ANSWER))
        assert not [name for name, _ in metrics if name == "kproxy_frames_total"]  # frozen figures would mislead


@pytest.mark.slow
def test_restarted_inspector_counts_from_0(tmp_path: Path, broker: Broker) -> None:
    frames = ("kproxy_frames_total", ("ApiVersions", "response"))
    with serving(tmp_path, broker.port) as served:
        served.proxy.send_requests(5)
        until(lambda: served.metrics().get(frames) == 5)
        [spawner] = children(served.proxy.process.pid)
        [inspector] = children(spawner)
        os.kill(inspector, signal.SIGKILL)
        until(lambda: served.metrics()["kproxy_inspector_restarts_total", ()] == 1)
        assert served.health()[1]["inspector"] == "running"
        served.proxy.send_requests(3)
        until(lambda: served.metrics().get(frames) == 3)
        assert served.metrics()["kproxy_relayed_bytes_total", ("request",)] == 8 * len(REQUEST)


@pytest.mark.slow
def test_proxy_is_ready_once_its_upstream_is_reachable(tmp_path: Path) -> None:
    with socket.socket() as upstream:
        upstream.bind(("127.0.0.1", 0))
        with serving(tmp_path, upstream.getsockname()[1], "--no-check") as served:
            status, report = served.health()
            assert (status, report["status"]) == (503, "no upstream can be reached")
            assert served.get("/livez")[0] == 200
            upstream.listen()
            until(lambda: served.health()[0] == 200)


@pytest.mark.slow
def test_draining_proxy_is_alive_but_not_ready(tmp_path: Path, broker: Broker) -> None:
    with serving(tmp_path, broker.port) as served, served.proxy.connect() as busy:
        stopped = threading.Event()

        def send_requests() -> None:
            while not stopped.is_set():
                busy.sendall(REQUEST)
                assert busy.recv(65536)
                time.sleep(0.02)

        thread = threading.Thread(target=send_requests)
        thread.start()
        try:
            until(lambda: served.metrics()["kproxy_connections_open", ()] == 1)
            served.proxy.process.send_signal(signal.SIGTERM)
            until(lambda: served.health()[1]["status"] == "draining")
            assert served.health()[0] == 503
            assert served.get("/livez")[0] == 200
        finally:
            stopped.set()
            thread.join()
        served.proxy.process.communicate(timeout=20)
        assert served.proxy.process.returncode == 0


@pytest.mark.slow
def test_metrics_without_their_extra_explain_how_to_install_it(tmp_path: Path, broker: Broker) -> None:
    program = "import sys; sys.modules['prometheus_client'] = None\nfrom kproxy.cli import main; sys.exit(main())"
    with serving(tmp_path, broker.port, program=("-c", program)) as served:
        status, body = served.get("/metrics")
        assert status == 501
        assert body.startswith("/metrics needs the extra 'metrics' of kproxy")
        assert body.count("\n") == 1
        assert served.health()[0] == 200
        served.proxy.send_requests()
        _, err = served.proxy.end()
        assert served.proxy.process.returncode == 0
    [warning] = [line for line in err.splitlines() if line.startswith("kproxy: ")]
    assert warning.startswith("kproxy: /metrics is not available; install what it needs with: ")
    assert "prometheus-client" in warning


@pytest.mark.slow
def test_prometheus_is_not_imported_without_an_http_server(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom kproxy.cli import main\nimport kproxy.live.run\n"
        "try: main(['--help'])\nfinally: print([name for name in sys.modules if 'prometheus' in name], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stderr == "[]\n"


@pytest.mark.slow
def test_unusable_http_address_is_reported_in_one_sentence(tmp_path: Path, broker: Broker) -> None:
    def error_output(address: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "kproxy", "--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{broker.port}",
             "--no-trace", "--http", address],
            capture_output=True, text=True, check=False, cwd=tmp_path, timeout=20,
        )  # fmt: skip
        assert result.returncode == 2
        return result.stderr

    occupied = f"127.0.0.1:{broker.port}"
    reason = f"{occupied} is already in use: stop the process on it, or choose another address with --http"
    assert error_output(occupied) == f"kproxy: {reason}\n"
    assert error_output("unix:/x") == "kproxy: --http does not take 'unix:/x': use [HOST:]PORT\n"
    assert error_output("99999") == "kproxy: --http '99999': invalid port '99999': use 0 to 65535\n"


@pytest.mark.slow
def test_notifies_the_service_manager_of_every_step(tmp_path: Path, broker: Broker) -> None:
    config_file = tmp_path / "kproxy.toml"
    config_file.write_text("")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            with running(
                tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", "--config-file", config_file
            ) as proxy:
                ready_message = f"READY=1\nSTATUS=relaying 127.0.0.1:{proxy.port} -> 127.0.0.1:{broker.port}"
                assert manager.recv(4096).decode() == ready_message
                proxy.send_requests()  # clients are served once the manager is notified
                config_file.write_text("listen = ['127.0.0.1:0'\n")  # invalid TOML: the relay keeps its configuration
                proxy.process.send_signal(signal.SIGHUP)
                reloading = manager.recv(4096).decode().split("\n")
                assert reloading[0] == "RELOADING=1"
                assert reloading[1].startswith("MONOTONIC_USEC=")
                assert manager.recv(4096).decode() == ready_message
                proxy.end(signal.SIGTERM)
                assert manager.recv(4096).decode() == "STOPPING=1\nSTATUS=draining"
        finally:
            del os.environ["NOTIFY_SOCKET"]
