"""A proxy as a child process is started, watched and stopped, and its message is shown if it cannot start."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.child_proxy import ChildProxy, ChildProxySource
from kproxy.browse.sources.source import SourcePhase
from kproxy.control.paths import list_proxies
from kproxy.errors import UserError
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import ResponseLine
from tests.kproxy.browse.sources.source_viewer import run_source
from tests.kproxy.browse.sources.test_capture_child import has_ended
from tests.kproxy.frames import request
from tests.peers.processes import until

API_VERSIONS_REQUEST = request("ApiVersions", 0, {}, correlation_id=7, client_id="tester")


@pytest.fixture
def proxy(sockets: Path) -> Iterator[ChildProxy]:
    proxy = ChildProxy(["--listen=127.0.0.1:0", "--upstream", "--no-trace"])
    yield proxy
    proxy.stop()


def port(proxy: ChildProxy) -> int:
    match = re.search(r"bootstrap\.servers=\S+:(\d+)", proxy.messages[0])
    assert match
    return int(match[1])


@pytest.mark.slow
async def test_proxy_is_watched_from_the_first_frame_and_stops_with_its_source(proxy: ChildProxy) -> None:
    assert proxy.exit_message is None
    source = ChildProxySource(proxy, keep=1 << 30)
    async with run_source(source) as viewer:
        await viewer.until(lambda: source.phase is SourcePhase.LIVE)
        with socket.create_connection(("127.0.0.1", port(proxy)), timeout=10) as client:
            client.sendall(API_VERSIONS_REQUEST)
            assert client.recv(65536)
        await viewer.until_lines(4)
        response = parse_line(viewer.lines[2])
        assert isinstance(response, ResponseLine)
        assert (response.api, response.client_id) == ("ApiVersions", "tester")
        assert response.frame
        assert source.messages is proxy.messages
    assert proxy.exit_message == "the proxy ended with status 0"
    assert list_proxies() == []


@pytest.mark.slow
async def test_built_in_broker_is_named_after_its_listener(proxy: ChildProxy) -> None:
    session = BrowseSession(ChildProxySource(proxy, keep=1 << 30))
    async with run_source(session.source) as viewer:
        await viewer.until(lambda: session.source.phase is SourcePhase.LIVE)
        listener = f"127.0.0.1:{port(proxy)}"
        assert session.source.name == f"{listener} -> built-in Kafka"
        assert f"set bootstrap.servers to {listener}" in session.source.empty_message
        assert session.source.warning == f"Quitting stops the proxy {listener} -> built-in Kafka."
        with socket.create_connection(("127.0.0.1", port(proxy)), timeout=10) as client:
            client.sendall(API_VERSIONS_REQUEST)
            assert client.recv(65536)
            await viewer.until_lines(3)
            assert session.source.warning.endswith(" and closes 1 connection.")
        for raw in viewer.lines:
            session.source.store.append(raw + b"\n")  # type: ignore[attr-defined]  # the viewer has already consumed these lines
        while session.work(1):
            pass
        [connection] = session.overviews.connections.rows()
        assert connection.server == listener
        exchange = session.exchange(1)
        assert exchange is not None
        assert exchange.line.server == listener  # type: ignore[union-attr]
    assert session.source.warning is None


@pytest.mark.slow
async def test_source_ends_when_the_proxy_is_killed(proxy: ChildProxy) -> None:
    source = ChildProxySource(proxy, keep=1 << 30)
    async with run_source(source) as viewer:
        await viewer.until(lambda: source.phase is SourcePhase.LIVE)
        os.kill(int(proxy.control.stem), signal.SIGKILL)
        await viewer.until(lambda: source.phase is SourcePhase.ENDED)
        assert source.sentence == "the proxy was killed by signal 9"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (["--listen=127.0.0.1:{port}", "--upstream"], 2, "127.0.0.1:{port} is already in use: stop the process on it"),
        (["--listen=127.0.0.1:0", "--upstream=127.0.0.1:1"], 3, "upstream 127.0.0.1:1 is unreachable"),
        (["--listen=127.0.0.1:0", "--upstream", "--kafka=7"], 2, "7"),
        (["--listen=127.0.0.1:0", "--upstream=a:1", "--brokers=2"], 2, "--brokers needs the built-in broker"),
    ],
    ids=["port in use", "upstream down", "no such release", "options that do not fit"],
)
def test_failed_start_reports_the_message_of_the_proxy(options: list[str], status: int, sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        busy_port = busy_socket.getsockname()[1]
        with pytest.raises(UserError) as raised:
            ChildProxy([*(option.format(port=busy_port) for option in options), "--no-trace"])
    assert raised.value.status == status
    assert sentence.format(port=busy_port) in str(raised.value)
    assert not str(raised.value).startswith("kproxy:")


#: A script that starts a proxy, prints its process id and keeps running.
VIEWER = """
import time
from kproxy.browse.sources.child_proxy import ChildProxy
proxy = ChildProxy(["--listen=127.0.0.1:0", "--upstream", "--no-trace"])
print(proxy.control.stem, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_proxy_exits_when_its_viewer_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", VIEWER], stdout=subprocess.PIPE) as viewer:
        assert viewer.stdout is not None
        proxy_pid = int(viewer.stdout.readline())
        viewer.send_signal(signal.SIGKILL)
        until("the proxy ends", lambda: has_ended(proxy_pid))
