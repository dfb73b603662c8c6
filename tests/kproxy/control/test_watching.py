"""A real proxy that is watched while clients and a broker talk through it."""

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
from tests.kproxy.cli.test_relay import ANSWER, ASKED, Broker, Proxy, running, traced, until
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.frames import request, response

#: A frame of 32 KiB, whose client id stands in the lines of request and response.
LARGE = request("ApiVersions", 0, {}, correlation_id=7, client_id="x" * 32_000)
#: What the broker of these tests never answers.
UNANSWERED = request("Heartbeat", 3, {"group_id": "g"}, correlation_id=99, client_id="hangs")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def mute() -> Iterator[int]:
    """The port of a broker that answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


class Watched(Proxy):
    """A running kproxy with its socket and its trace."""

    def __init__(self, proxy: Proxy, directory: Path) -> None:
        super().__init__(proxy.process)
        self.said, self.port = proxy.said, proxy.port
        self.path = find(f"127.0.0.1:{self.port}").path
        self.directory = directory
        self.connected = 0

    def connect(self) -> socket.socket:
        self.connected += 1
        return super().connect()

    def watch(self, **wishes: bool) -> RawViewer:
        """A viewer that watches."""
        viewer = RawViewer(self.path)
        assert viewer.line()["protocol"] == 1
        assert viewer.ask(id=0, do="watch", **wishes) == {"id": 0, "watching": True}
        return viewer

    def traced(self) -> list[dict[str, object]]:
        return traced(self.directory / "kproxy-trace")

    def settled(self) -> list[dict[str, object]]:
        """The trace when every connection there was has ended in it, however far behind the inspector is."""
        until(lambda: kinds(self.traced()).count("close") == self.connected)
        return self.traced()


@contextmanager
def watched(directory: Path, upstream: int, *args: object) -> Iterator[Watched]:
    with running(directory, "--upstream", f"127.0.0.1:{upstream}", *(args or ["-q"])) as proxy:
        yield Watched(proxy, directory)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, broker: Broker, sockets: Path) -> Iterator[Watched]:
    """One for all tests that leave it as it was."""
    with watched(tmp_path_factory.mktemp("proxy"), broker.port) as made:
        yield made


def kinds(lines: list[dict[str, object]]) -> list[object]:
    return [line["kind"] for line in lines]


def test_greets_with_what_it_is(proxy: Watched, broker: Broker) -> None:
    with RawViewer(proxy.path) as viewer:
        greeting = viewer.line()
    assert greeting["pid"] == proxy.process.pid
    assert greeting["listeners"] == [
        {"listen": f"127.0.0.1:{proxy.port}", "upstream": f"127.0.0.1:{broker.port}"}
    ]  # fmt: skip
    assert greeting["trace"] == str(proxy.directory / "kproxy-trace")
    assert greeting["detail"] == "summary"


def test_lines_come_as_they_are_traced(proxy: Watched) -> None:
    before = len(proxy.settled())
    with proxy.watch() as viewer:
        proxy.ask(2)
        lines = [viewer.line() for _ in range(6)]
        assert kinds(lines) == ["open", *["request", "response"] * 2, "close"]
        assert lines == proxy.traced()[before:]
        proxy.ask()
        assert viewer.ask(id=1, do="unwatch")["watching"] is False
        proxy.ask()
        assert viewer.ask(id=2, do="connections")["connections"] is not None


def test_a_request_that_hangs_is_seen_at_once_and_listed(tmp_path: Path, mute: int) -> None:
    with (
        watched(tmp_path, mute, "--no-trace", "-q") as proxy,
        proxy.watch() as viewer,
        proxy.connect() as client,
    ):
        assert viewer.line()["kind"] == "open"
        client.sendall(ASKED + UNANSWERED[:10])
        asked = viewer.line()
        assert (asked["kind"], asked["correlation_id"]) == ("request", 7)
        [connection] = viewer.ask(id="c", do="connections")["connections"]
        assert connection["client"] == f"127.0.0.1:{client.getsockname()[1]}"
        assert (connection["server"], connection["listener"]) == (f"127.0.0.1:{mute}", f"127.0.0.1:{proxy.port}")
        assert (connection["tls"], connection["requests"], connection["responses"], connection["unanswered"]) == (
            False,
            1,
            0,
            1,
        )
        assert (connection["request_bytes"], connection["response_bytes"]) == (len(ASKED) + 10, 0)
        assert connection["opened"] < asked["ts"]
        assert connection["in_flight"] == [
            {"api": "ApiVersions", "api_version": 0, "correlation_id": 7, "ts": asked["ts"], "client_id": "tester"}
        ]
        with proxy.watch(backlog=True, frames=True) as late:
            opened, waiting = late.line(), late.line()
            assert opened["connection_id"] == waiting["connection_id"] == asked["connection_id"]
            assert {**asked, "frame": base64.b64encode(ASKED).decode()} == waiting
            client.sendall(UNANSWERED[10:])
            assert (late.line()["correlation_id"], viewer.line()["correlation_id"]) == (99, 99)


def test_the_past_is_told_without_doubles_and_then_what_comes(proxy: Watched) -> None:
    proxy.ask(3)
    proxy.settled()
    with proxy.connect() as client, proxy.watch() as live:
        client.sendall(ASKED)
        assert client.recv(65536) == ANSWER
        while live.line()["kind"] != "response":
            pass
        past = proxy.traced()
        with proxy.watch(backlog=True) as viewer:
            assert [viewer.line() for _ in past] == past
            client.sendall(ASKED)
            assert [viewer.line()["kind"] for _ in range(2)] == ["request", "response"]


@pytest.mark.parametrize("detail", ["summary", "full", "raw"])
def test_frames_go_to_viewers_and_not_into_the_trace(tmp_path: Path, broker: Broker, detail: str) -> None:
    with watched(tmp_path, broker.port, "--json", "--detail", detail) as proxy:
        with proxy.watch() as plain:
            with proxy.watch(frames=True) as viewer:
                proxy.ask()
                lines = [viewer.line() for _ in range(4)]
                assert [line.get("frame") for line in lines] == [
                    None, base64.b64encode(ASKED).decode(), base64.b64encode(ANSWER).decode(), None
                ]  # fmt: skip
                assert viewer.ask(id=1, do="watch")["watching"]
                proxy.ask()
                lines += [viewer.line() for _ in range(4)]
                assert all("frame" not in line for line in lines[4:])
                viewer.ask(id=1, do="watch", frames=True)
            proxy.ask()  # after it has gone
            without = [plain.line() for _ in range(12)]
        out, _ = proxy.end()
        trace = proxy.traced()
    assert [json.loads(line) for line in out.splitlines()] == trace
    frames = [line for line in trace if line["kind"] in ("request", "response")]
    assert len(frames) == 6
    for line in frames:
        assert ("body" in line, "frame" in line) == (detail != "summary", detail == "raw")
    bare = [{name: value for name, value in line.items() if name not in ("frame", "body")} for line in lines]
    assert bare == without[:8]
    assert [{key: value for key, value in line.items() if key not in ("frame", "body")} for line in trace] == without


def test_a_viewer_that_reads_nothing_misses_lines_and_nobody_else_does(proxy: Watched) -> None:
    rounds = 200
    with proxy.watch(frames=True) as slow, proxy.watch() as quick:
        with proxy.connect() as client:
            for number in range(rounds):
                client.sendall(LARGE)
                assert client.recv(65536) == ANSWER
                if number % 50 == 49:  # before it is behind too; each time would take long where lines come late
                    assert {quick.line()["kind"] for _ in range(100)} <= {"open", "request", "response"}
        told = proxy.settled()[-2 * rounds - 2 :]
        lines: list[dict[str, object]] = []
        while not lines or lines[-1]["kind"] not in ("gap", "close"):
            lines.append(slow.line())
        [gap] = [line for line in lines if line["kind"] == "gap"]
        assert (gap["reason"], gap["connection_id"]) == ("the viewer is too slow", "")
        whole = [line for line in lines if line["kind"] != "gap"]
        assert [{**line, "frame": None} for line in whole] == [{**line, "frame": None} for line in told[: len(whole)]]
        assert len(whole) + gap["frames"] == len(told)
        proxy.ask()
        assert slow.line()["kind"] == "open"  # it has all again
    assert "gap" not in kinds(proxy.traced())


@pytest.mark.parametrize(
    ("sent", "why"),
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
def test_rubbish_is_cut_off_with_an_error(proxy: Watched, sent: bytes, why: str) -> None:
    with RawViewer(proxy.path) as viewer:
        viewer.line()
        viewer.socket.sendall(sent)
        [said] = viewer.rest()
        assert list(said) == ["error"]
        assert said["error"].startswith(why)


def test_what_cannot_be_done_is_an_error_and_what_is_not_known_passed_over(proxy: Watched) -> None:
    with RawViewer(proxy.path) as viewer:
        viewer.line()
        assert viewer.ask(id=1, do="dance" * 100) == {
            "id": 1,
            "error": f"unknown command '{'dance' * 10}'; kproxy 0.1.0 has connections, causes, watch, unwatch, stop,"
            " ping",
        }  # fmt: skip
        assert viewer.ask(id="two", do="watch", frames="yes") == {
            "id": "two", "error": "watch: Expected `bool`, got `str` - at `$.frames`"
        }  # fmt: skip
        assert viewer.ask(do="watch", later={"added": [1]}) == {"id": None, "watching": True}


def test_there_may_be_sixteen_viewers(proxy: Watched) -> None:
    viewers = [RawViewer(proxy.path) for _ in range(MAX_VIEWERS)]
    assert all(viewer.line()["protocol"] == 1 for viewer in viewers)
    with RawViewer(proxy.path) as one_more:
        assert one_more.rest() == [{"error": "16 viewers are already connected, which is the maximum"}]
    for viewer in viewers:
        viewer.__exit__()

    def there_is_room_again() -> bool:
        with RawViewer(proxy.path) as next_one:
            return "error" not in next_one.line()

    until(there_is_room_again)


#: Watches, says so, and reads a little now and then.
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


def test_a_viewer_that_is_killed_mid_stream_harms_nobody(proxy: Watched) -> None:
    before = len(proxy.settled())
    viewer = subprocess.Popen([sys.executable, "-c", READER, str(proxy.path)], stdout=subprocess.PIPE)
    assert viewer.stdout is not None
    with proxy.connect() as client, viewer:
        assert viewer.stdout.readline() == b"watching\n"
        for number in range(40):
            client.sendall(LARGE)
            assert client.recv(65536) == ANSWER
            if number == 20:
                viewer.kill()
    assert len(proxy.settled()) == before + 82
    assert proxy.process.poll() is None
    for line in proxy.traced():
        parse_line(json.dumps(line))


@pytest.mark.parametrize("how", ["stop", "SIGTERM", "SIGKILL"])
def test_a_proxy_that_ends_tells_what_was_open_and_leaves_no_socket(tmp_path: Path, mute: int, how: str) -> None:
    with (
        watched(tmp_path, mute) as proxy,
        proxy.watch() as viewer,
        proxy.connect() as client,
    ):
        client.sendall(ASKED)
        assert [viewer.line()["kind"] for _ in range(2)] == ["open", "request"]
        if how == "stop":
            assert viewer.ask(id=1, do="stop") == {"id": 1, "stopping": True}
        else:
            os.kill(proxy.process.pid, signal.Signals[how])
        rest = viewer.rest()
        assert kinds(rest)[-1] == "close"
        assert rest[-1]["unanswered"] == 1
        assert rest == proxy.traced()[2:]
        assert not proxy.path.exists()
        assert proxy.process.wait(10) == (-signal.SIGKILL if how == "SIGKILL" else 0)


def test_viewers_see_the_listeners_that_are_opened_for_brokers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        upstream = f"127.0.0.1:{other.getsockname()[1]}"
        named = [{"node_id": 1, "host": "127.0.0.1", "port": other.getsockname()[1]}]
        broker = Broker(response("Metadata", 9, {"brokers": named}, correlation_id=1))
        with (
            running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "--advertise", "-q") as proxy,
            RawViewer(find(str(proxy.port)).path) as viewer,
            proxy.connect() as client,
        ):
            first = viewer.line()["listeners"]
            viewer.ask(do="watch")
            client.sendall(request("Metadata", 9, {"topics": None}, correlation_id=1))
            while "listeners" not in (line := viewer.line()):
                assert line
            assert line["listeners"][:-1] == first
            added = line["listeners"][-1]
            assert added["upstream"] == upstream
            assert find(added["listen"]).path == find(str(proxy.port)).path
        broker.stop()
