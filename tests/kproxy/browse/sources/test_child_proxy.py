"""A proxy of our own: started, watched, ended; and what is said when it cannot be."""

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
from kproxy.control.paths import running
from kproxy.errors import UserError
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import ResponseLine
from tests.kproxy.browse.sources.source_viewer import following
from tests.kproxy.browse.sources.test_capture_child import has_ended
from tests.kproxy.frames import request
from tests.peers.processes import until

ASKED = request("ApiVersions", 0, {}, correlation_id=7, client_id="tester")


@pytest.fixture
def proxy(sockets: Path) -> Iterator[ChildProxy]:
    proxy = ChildProxy(["--listen=127.0.0.1:0", "--upstream", "--no-trace"])
    yield proxy
    proxy.stop()


def port(proxy: ChildProxy) -> int:
    match = re.search(r"bootstrap\.servers=\S+:(\d+)", proxy.messages[0])
    assert match
    return int(match[1])


async def test_is_watched_from_the_first_frame_and_ends_with_its_source(proxy: ChildProxy) -> None:
    assert proxy.exit_message is None
    source = ChildProxySource(proxy, keep=1 << 30)
    async with following(source) as seen:
        await seen.until(lambda: source.phase is SourcePhase.LIVE)
        with socket.create_connection(("127.0.0.1", port(proxy)), timeout=10) as client:
            client.sendall(ASKED)
            assert client.recv(65536)
        await seen.until_lines(4)
        answer = parse_line(seen.lines[2])
        assert isinstance(answer, ResponseLine)
        assert (answer.api, answer.client_id) == ("ApiVersions", "tester")
        assert answer.frame
        assert source.messages is proxy.messages
    assert proxy.exit_message == "the proxy ended with status 0"
    assert running() == []


async def test_the_built_in_broker_is_known_by_its_listener(proxy: ChildProxy) -> None:
    session = BrowseSession(ChildProxySource(proxy, keep=1 << 30))
    async with following(session.source) as seen:
        await seen.until(lambda: session.source.phase is SourcePhase.LIVE)
        listener = f"127.0.0.1:{port(proxy)}"
        assert session.source.name == f"{listener} -> built-in Kafka"
        assert f"set bootstrap.servers to {listener}" in session.source.empty_message
        assert session.source.warning == f"Quitting stops the proxy {listener} -> built-in Kafka."
        with socket.create_connection(("127.0.0.1", port(proxy)), timeout=10) as client:
            client.sendall(ASKED)
            assert client.recv(65536)
            await seen.until_lines(3)
            assert session.source.warning.endswith(" and closes 1 connection.")
        for raw in seen.lines:
            session.source.store.append(raw + b"\n")  # type: ignore[attr-defined]  # `following` has taken them
        while session.work(1):
            pass
        [connection] = session.overviews.connections.rows()
        assert connection.server == listener
        exchange = session.exchange(1)
        assert exchange is not None
        assert exchange.line.server == listener  # type: ignore[union-attr]
    assert session.source.warning is None


async def test_one_that_dies_is_not_waited_for(proxy: ChildProxy) -> None:
    source = ChildProxySource(proxy, keep=1 << 30)
    async with following(source) as seen:
        await seen.until(lambda: source.phase is SourcePhase.LIVE)
        os.kill(int(proxy.control.stem), signal.SIGKILL)
        await seen.until(lambda: source.phase is SourcePhase.ENDED)
        assert source.sentence == "the proxy was killed by signal 9"


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
def test_why_it_cannot_start_is_its_own_sentence(options: list[str], status: int, sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(UserError) as raised:
            ChildProxy([*(option.format(port=number) for option in options), "--no-trace"])
    assert raised.value.status == status
    assert sentence.format(port=number) in str(raised.value)
    assert not str(raised.value).startswith("kproxy:")


#: Starts a proxy, prints its process id, and stays.
VIEWER = """
import time
from kproxy.browse.sources.child_proxy import ChildProxy
proxy = ChildProxy(["--listen=127.0.0.1:0", "--upstream", "--no-trace"])
print(proxy.control.stem, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_proxy_of_a_killed_viewer_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", VIEWER], stdout=subprocess.PIPE) as viewer:
        assert viewer.stdout is not None
        proxy = int(viewer.stdout.readline())
        viewer.send_signal(signal.SIGKILL)
        until("the proxy ends", lambda: has_ended(proxy))
