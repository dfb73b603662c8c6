"""Viewers watch a real proxy while a client and a broker communicate through it."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproxy.control.paths import find
from kproxy.control.protocol import MAX_VIEWERS
from kproxy.trace.encoding import parse_line
from tests.kproxy.cli.test_relay import ANSWER, REQUEST, Broker, Proxy, read_trace, running, until
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.frames import request, response

#: A frame of about 32 KB; its client id appears in both the request line and the response line.
LARGE = request("ApiVersions", 0, {}, correlation_id=7, client_id="x" * 32_000)
#: A request that the broker of these tests never answers.
UNANSWERED = request("Heartbeat", 3, {"group_id": "g"}, correlation_id=99, client_id="hangs")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def silent_broker() -> Iterator[int]:
    """Return the port of a broker that never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class WatchedProxy(Proxy):
    """A running proxy with its control socket and its trace."""

    def __init__(self, proxy: Proxy, directory: Path) -> None:
        super().__init__(proxy.process)
        self.printed, self.port = proxy.printed, proxy.port
        self.path = find(f"127.0.0.1:{self.port}").path
        self.directory = directory
        self.connection_count = 0

    def connect(self) -> socket.socket:
        self.connection_count += 1
        return super().connect()

    def watch(self, **options: bool) -> RawViewer:
        """Connect a viewer that watches the proxy."""
        viewer = RawViewer(self.path)
        assert viewer.read_line()["protocol"] == 1
        assert viewer.request(id=0, do="watch", **options) == {"id": 0, "watching": True}
        return viewer

    def trace_lines(self) -> list[dict[str, object]]:
        return read_trace(self.directory / "kproxy-trace")

    def wait_for_trace(self) -> list[dict[str, object]]:
        """Wait until the trace contains the end of every connection, since the inspector may lag behind; return it."""
        until(lambda: kinds(self.trace_lines()).count("close") == self.connection_count)
        return self.trace_lines()


@contextmanager
def run_watched(directory: Path, upstream: int, *args: object) -> Iterator[WatchedProxy]:
    with running(directory, "--upstream", f"127.0.0.1:{upstream}", *(args or ["-q"])) as proxy:
        yield WatchedProxy(proxy, directory)


@pytest.fixture(scope="module")
def shared_proxy(tmp_path_factory: pytest.TempPathFactory, broker: Broker, sockets: Path) -> Iterator[WatchedProxy]:
    with run_watched(tmp_path_factory.mktemp("proxy"), broker.port) as watched_proxy:
        yield watched_proxy


@pytest.fixture
def proxy(shared_proxy: WatchedProxy) -> WatchedProxy:
    """Return a proxy that is shared by all tests that leave it unchanged.

    The lines of the test before have been written, so that the viewers of this test do not receive them.
    """
    shared_proxy.wait_for_trace()
    return shared_proxy


def kinds(lines: list[dict[str, object]]) -> list[object]:
    return [line["kind"] for line in lines]


def test_greeting_describes_the_proxy(proxy: WatchedProxy, broker: Broker) -> None:
    with RawViewer(proxy.path) as viewer:
        greeting = viewer.read_line()
    assert greeting["pid"] == proxy.process.pid
    assert greeting["listeners"] == [
        {"listen": f"127.0.0.1:{proxy.port}", "upstream": f"127.0.0.1:{broker.port}"}
    ]  # fmt: skip
    assert greeting["trace"] == str(proxy.directory / "kproxy-trace")
    assert greeting["detail"] == "summary"


def test_viewers_receive_the_same_lines_as_the_trace(proxy: WatchedProxy) -> None:
    earlier_lines = len(proxy.wait_for_trace())
    with proxy.watch() as viewer:
        proxy.send_requests(2)
        lines = [viewer.read_line() for _ in range(6)]
        assert kinds(lines) == ["open", *["request", "response"] * 2, "close"]
        assert lines == proxy.trace_lines()[earlier_lines:]
        proxy.send_requests()
        assert viewer.request(id=1, do="unwatch")["watching"] is False
        proxy.send_requests()
        assert viewer.request(id=2, do="connections")["connections"] is not None


@pytest.mark.slow
def test_hanging_request_is_shown_immediately_and_listed(tmp_path: Path, silent_broker: int) -> None:
    with (
        run_watched(tmp_path, silent_broker, "--no-trace", "-q") as proxy,
        proxy.watch() as viewer,
        proxy.connect() as client,
    ):
        assert viewer.read_line()["kind"] == "open"
        client.sendall(REQUEST + UNANSWERED[:10])
        request_line = viewer.read_line()
        assert (request_line["kind"], request_line["correlation_id"]) == ("request", 7)
        [connection] = viewer.request(id="c", do="connections")["connections"]
        assert connection["client"] == f"127.0.0.1:{client.getsockname()[1]}"
        assert (connection["server"], connection["listener"]) == (
            f"127.0.0.1:{silent_broker}",
            f"127.0.0.1:{proxy.port}",
        )
        assert (connection["tls"], connection["requests"], connection["responses"], connection["unanswered"]) == (
            False,
            1,
            0,
            1,
        )
        assert (connection["request_bytes"], connection["response_bytes"]) == (len(REQUEST) + 10, 0)
        assert connection["opened"] < request_line["ts"]
        assert connection["in_flight"] == [
            {
                "api": "ApiVersions",
                "api_version": 0,
                "correlation_id": 7,
                "ts": request_line["ts"],
                "client_id": "tester",
            }
        ]
        with proxy.watch(backlog=True, frames=True) as late_viewer:
            open_line, repeated_request = late_viewer.read_line(), late_viewer.read_line()
            assert open_line["connection_id"] == repeated_request["connection_id"] == request_line["connection_id"]
            assert {**request_line, "frame": base64.b64encode(REQUEST).decode()} == repeated_request
            client.sendall(UNANSWERED[10:])
            assert (late_viewer.read_line()["correlation_id"], viewer.read_line()["correlation_id"]) == (99, 99)


def test_backlog_and_new_lines_have_no_duplicates(proxy: WatchedProxy) -> None:
    proxy.send_requests(3)
    proxy.wait_for_trace()
    with proxy.connect() as client, proxy.watch() as live_viewer:
        client.sendall(REQUEST)
        assert client.recv(65536) == ANSWER
        while live_viewer.read_line()["kind"] != "response":
            pass
        earlier_lines = proxy.trace_lines()
        with proxy.watch(backlog=True) as viewer:
            assert [viewer.read_line() for _ in earlier_lines] == earlier_lines
            client.sendall(REQUEST)
            assert [viewer.read_line()["kind"] for _ in range(2)] == ["request", "response"]


@pytest.mark.slow
@pytest.mark.parametrize("detail", ["summary", "full", "raw"])
def test_frames_are_sent_to_viewers_but_not_traced(tmp_path: Path, broker: Broker, detail: str) -> None:
    with run_watched(tmp_path, broker.port, "--json", "--detail", detail) as proxy:
        with proxy.watch() as plain_viewer:
            with proxy.watch(frames=True) as viewer:
                proxy.send_requests()
                lines = [viewer.read_line() for _ in range(4)]
                assert [line.get("frame") for line in lines] == [
                    None, base64.b64encode(REQUEST).decode(), base64.b64encode(ANSWER).decode(), None
                ]  # fmt: skip
                assert viewer.request(id=1, do="watch")["watching"]
                proxy.send_requests()
                lines += [viewer.read_line() for _ in range(4)]
                assert all("frame" not in line for line in lines[4:])
                viewer.request(id=1, do="watch", frames=True)
            proxy.send_requests()  # after the viewer has disconnected
            plain_lines = [plain_viewer.read_line() for _ in range(12)]
        output, _ = proxy.end()
        trace = proxy.trace_lines()
    assert [json.loads(line) for line in output.splitlines()] == trace
    frames = [line for line in trace if line["kind"] in ("request", "response")]
    assert len(frames) == 6
    for line in frames:
        assert ("body" in line, "frame" in line) == (detail != "summary", detail == "raw")
    lines_without_frames = [
        {name: value for name, value in line.items() if name not in ("frame", "body")} for line in lines
    ]
    assert lines_without_frames == plain_lines[:8]
    assert [
        {key: value for key, value in line.items() if key not in ("frame", "body")} for line in trace
    ] == plain_lines


def test_only_a_viewer_that_does_not_read_misses_lines(proxy: WatchedProxy) -> None:
    rounds = 200
    with proxy.watch(frames=True) as slow_viewer, proxy.watch() as quick_viewer:
        with proxy.connect() as client:
            for number in range(rounds):
                client.sendall(LARGE)
                assert client.recv(65536) == ANSWER
                # Read now and then, so that this viewer does not fall behind too; not in every round, because lines may
                # arrive late.
                if number % 50 == 49:
                    assert {quick_viewer.read_line()["kind"] for _ in range(100)} <= {"open", "request", "response"}
        expected = proxy.wait_for_trace()[-2 * rounds - 2 :]
        lines: list[dict[str, object]] = []
        while not lines or lines[-1]["kind"] not in ("gap", "close"):
            lines.append(slow_viewer.read_line())
        [gap] = [line for line in lines if line["kind"] == "gap"]
        assert (gap["reason"], gap["connection_id"]) == ("the viewer is too slow", "")
        frame_lines = [line for line in lines if line["kind"] != "gap"]
        assert [{**line, "frame": None} for line in frame_lines] == [
            {**line, "frame": None} for line in expected[: len(frame_lines)]
        ]
        assert len(frame_lines) + gap["frames"] == len(expected)
        proxy.send_requests()
        assert slow_viewer.read_line()["kind"] == "open"  # it receives all lines again
    assert "gap" not in kinds(proxy.trace_lines())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "invalid request: JSON is malformed"),
        (b"[]\n", "invalid request: Expected `object`"),
        (b"{}\n", "invalid request: Object missing required field `do`"),
        (b'{"do":"watch","id":{}}\n', "invalid request: Expected `int | str | null`"),
        (b'{"do":"\xff"}\n', "invalid request: "),
        (b"[" * 60_000 + b"\n", "invalid request: "),
        (b"x" * 80_000, "a request is limited to 65536 bytes"),
    ],
)
def test_invalid_request_is_answered_with_an_error_and_a_disconnect(
    proxy: WatchedProxy, data: bytes, message: str
) -> None:
    with RawViewer(proxy.path) as viewer:
        viewer.read_line()
        viewer.socket.sendall(data)
        [reply] = viewer.read_rest()
        assert list(reply) == ["error"]
        assert reply["error"].startswith(message)


def test_invalid_commands_are_rejected_and_unknown_options_ignored(proxy: WatchedProxy) -> None:
    with RawViewer(proxy.path) as viewer:
        viewer.read_line()
        assert viewer.request(id=1, do="dance" * 100) == {
            "id": 1,
            "error": f"unknown command '{'dance' * 10}'; kproxy 0.1.0 has connections, causes, watch, unwatch, stop,"
            " ping",
        }  # fmt: skip
        assert viewer.request(id="two", do="watch", frames="yes") == {
            "id": "two", "error": "watch: Expected `bool`, got `str` - at `$.frames`"
        }  # fmt: skip
        assert viewer.request(do="watch", later={"added": [1]}) == {"id": None, "watching": True}


def test_at_most_sixteen_viewers_are_accepted(proxy: WatchedProxy) -> None:
    viewers = [RawViewer(proxy.path) for _ in range(MAX_VIEWERS)]
    assert all(viewer.read_line()["protocol"] == 1 for viewer in viewers)
    with RawViewer(proxy.path) as extra_viewer:
        assert extra_viewer.read_rest() == [{"error": "16 viewers are already connected, which is the maximum"}]
    for viewer in viewers:
        viewer.__exit__()

    def is_slot_free() -> bool:
        with RawViewer(proxy.path) as next_viewer:
            return "error" not in next_viewer.read_line()

    until(is_slot_free)


#: A script that watches the proxy, prints a line once it does, and then reads slowly.
READER = """
import socket, sys, time
viewer = socket.socket(socket.AF_UNIX)
viewer.connect(sys.argv[1])
viewer.sendall(b'{"do":"watch","frames":true}\\n')
viewer.recv(1 << 16)
print("watching", flush=True)
while viewer.recv(1000):
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_killed_viewer_does_not_affect_the_proxy(proxy: WatchedProxy) -> None:
    earlier_lines = len(proxy.wait_for_trace())
    viewer = subprocess.Popen([sys.executable, "-c", READER, str(proxy.path)], stdout=subprocess.PIPE)
    assert viewer.stdout is not None
    with proxy.connect() as client, viewer:
        assert viewer.stdout.readline() == b"watching\n"
        for number in range(40):
            client.sendall(LARGE)
            assert client.recv(65536) == ANSWER
            if number == 20:
                viewer.kill()
    assert len(proxy.wait_for_trace()) == earlier_lines + 82
    assert proxy.process.poll() is None
    for line in proxy.trace_lines():
        parse_line(json.dumps(line))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["stop", "SIGTERM", "SIGKILL"])
def test_ending_proxy_closes_open_connections_and_removes_its_socket(
    tmp_path: Path, silent_broker: int, method: str
) -> None:
    with (
        run_watched(tmp_path, silent_broker) as proxy,
        proxy.watch() as viewer,
        proxy.connect() as client,
    ):
        client.sendall(REQUEST)
        assert [viewer.read_line()["kind"] for _ in range(2)] == ["open", "request"]
        if method == "stop":
            assert viewer.request(id=1, do="stop") == {"id": 1, "stopping": True}
        else:
            os.kill(proxy.process.pid, signal.Signals[method])
        remaining_lines = viewer.read_rest()
        assert kinds(remaining_lines)[-1] == "close"
        assert remaining_lines[-1]["unanswered"] == 1
        assert remaining_lines == proxy.trace_lines()[2:]
        assert not proxy.path.exists()
        assert proxy.process.wait(10) == (-signal.SIGKILL if method == "SIGKILL" else 0)


@pytest.mark.slow
def test_viewers_see_listeners_that_are_opened_for_brokers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as second_broker:
        upstream = f"127.0.0.1:{second_broker.getsockname()[1]}"
        brokers = [{"node_id": 1, "host": "127.0.0.1", "port": second_broker.getsockname()[1]}]
        broker = Broker(response("Metadata", 9, {"brokers": brokers}, correlation_id=1))
        with (
            running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "--advertise", "-q") as proxy,
            RawViewer(find(str(proxy.port)).path) as viewer,
            proxy.connect() as client,
        ):
            listeners = viewer.read_line()["listeners"]
            viewer.request(do="watch")
            client.sendall(request("Metadata", 9, {"topics": None}, correlation_id=1))
            while "listeners" not in (line := viewer.read_line()):
                assert line
            assert line["listeners"][:-1] == listeners
            new_listener = line["listeners"][-1]
            assert new_listener["upstream"] == upstream
            assert find(new_listener["listen"]).path == find(str(proxy.port)).path
        broker.stop()
