"""`kproxy web` in a browser: what its windows show, keys and mouse, who may come in, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.kproxy.frames import request
from tests.kproxy.tui.terminal import environment
from tests.peers.browser import Browser, Tab
from tests.peers.processes import until
from tests.peers.window import Window, web

pytestmark = pytest.mark.peers

_ROOT = Path(__file__).parents[2]
_BUG = _ROOT / "tests" / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
_TRACE = _ROOT / "captures" / "trace-1.jsonl"


@pytest.fixture(scope="module")
def chromium(tab: Tab) -> Browser:
    return tab.browser


@pytest.fixture
def alone() -> Iterator[Mapping[str, str]]:
    """An environment in which there are no other proxies."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        yield {**os.environ, **environment(Path(directory))}


def test_a_capture_with_keys_mouse_and_another_size(chromium: Browser, tmp_path: Path) -> None:
    with web(_BUG, cwd=tmp_path) as server:
        window = Window(chromium, server.address)
        window.wait_for(lambda screen: "FindCoordinator" in screen and "L005 field-from-newer-version" in screen)
        first = window.tab.picture()
        window.press("!")
        screen = window.wait_for("throttle_time_ms  0")
        assert "hint: do not write throttle_time_ms in version 2" in screen
        assert "00 00 00 54 00 00 00 02" in screen
        marked = window.tab.picture()
        assert first[:8] == marked[:8] == b"\x89PNG\r\n\x1a\n"
        assert first != marked
        (tmp_path / "window.png").write_bytes(marked)
        window.press("/", *"api=FindCoordinator", "Enter")
        window.wait_for("1 shown")
        window.click("Connections")
        window.wait_for("127.0.0.1:35052")
        window.press("c", "6")
        window.wait_for("blame")
        window.tab.resize(720, 504)
        window.wait_for(lambda screen: len(screen.splitlines()) == 24 and "L005" in screen)
        assert window.tab.run("[shown.cols, shown.rows]") == [80, 24]


def test_the_keys_are_for_the_terminal_from_the_start(chromium: Browser, tmp_path: Path) -> None:
    with web(_BUG, cwd=tmp_path) as server:
        window = Window(chromium, server.address)
        window.wait_for("FindCoordinator")
        window.wait_for(lambda screen: "/ filter" in screen.splitlines()[-1])
        assert window.tab.run("document.hasFocus() && document.activeElement.className") == "xterm-helper-textarea"


def test_a_reload_keeps_view_filter_and_selection(chromium: Browser, tmp_path: Path) -> None:
    with web(_BUG, cwd=tmp_path) as server:
        window = Window(chromium, server.address)
        window.wait_for("FindCoordinator")
        window.press("/", *"api=ApiVersions", "Enter")
        window.wait_for("4 shown")
        window.press("2")
        window.wait_for("connection: metadata-throttle-first--java-0")
        window.press("j")
        second = "connection: metadata-throttle-first--java-1"
        window.wait_for(second)
        for _ in range(2):
            window.tab.call("Page.reload")
            window.tab.until("document.body?.classList.contains('-first-byte')")
            window.wait_for(lambda screen: second in screen and "filter api=ApiVersions  4 shown of 11" in screen)
        assert server.sessions == 1
        window.click("APIs")  # the mouse works as before
        window.wait_for("p99")
        window.press("1")
        assert "4 shown" in window.wait_for("error / finding")
        other = Window(chromium, server.address)
        other.wait_for("FindCoordinator")
        assert server.sessions == 2
        window.tab.call("Page.navigate", url=server.address)  # opened anew, not reloaded
        window.wait_for(lambda screen: "FindCoordinator" in screen and "shown" not in screen)


def test_the_token_leaves_the_address_and_stays_as_a_cookie(chromium: Browser, tmp_path: Path) -> None:
    with web(_TRACE, cwd=tmp_path) as server:
        place, _, token = server.address.partition("?token=")
        outside = Tab(chromium)
        chromium.events.clear()
        for address in (place, f"{place}?token={token[:-1]}"):
            outside.call("Page.navigate", url=address)
            outside.until("document.body?.innerText.includes('including its token')")
        window = Window(chromium, server.address)
        window.wait_for("5 rows")
        assert window.tab.run("location.href") == place
        assert window.tab.run("document.cookie") == ""
        window.tab.call("Page.reload")
        window.wait_for("5 rows")
        asked = outside.asked()
        assert server.address in asked
        assert all(address.startswith(place) for address in asked)
        window.tab.call("Network.clearBrowserCookies")
        opened = window.tab.run(f"""new Promise((told) => {{
            const socket = new WebSocket("{place.replace("http", "ws")}ws/{"a" * 32}?width=80&height=24");
            socket.onopen = () => told("opened");
            socket.onerror = () => told("refused");
        }})""")
        assert opened == "refused"


def test_windows_of_a_proxy_see_the_same_and_end_when_they_are_closed(
    chromium: Browser, tmp_path: Path, alone: Mapping[str, str]
) -> None:
    with web("--listen", "127.0.0.1:0", "--upstream", "--no-trace", cwd=tmp_path, env=alone) as server:
        [proxy] = server.children()
        one = Window(chromium, server.address)
        port = int(one.wait_for("127.0.0.1:").partition("127.0.0.1:")[2].partition(" ")[0])
        two = Window(chromium, server.address.partition("?")[0], width=900)
        two.wait_for("0 rows")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(request("ApiVersions", 0, {}, correlation_id=7, client_id="tester"))
            assert client.recv(65536)
            for window in (one, two):
                window.wait_for("tester")
        with web(port, cwd=tmp_path, env=alone) as other:
            Window(chromium, other.address).wait_for("tester")
            os.killpg(other.process.pid, signal.SIGINT)  # as Ctrl-C does
            assert other.process.communicate(timeout=60) == ("", "")
            assert other.process.returncode == 0
        assert server.sessions == 2
        two.tab.call("Page.close")
        until("its process has ended", lambda: server.sessions == 1)
        one.tab.call("Page.navigate", url="about:blank")
        until("its process has ended", lambda: server.children() == [proxy])


def test_a_session_that_ends_says_why(chromium: Browser, tmp_path: Path) -> None:
    source = shutil.copy(_BUG, tmp_path / "bug.pcap.gz")
    with web(source, cwd=tmp_path) as server:
        window = Window(chromium, server.address)
        window.wait_for("FindCoordinator")
        window.press("q")
        window.tab.until("document.body.classList.contains('-closed')")
        until("its process has ended", lambda: server.sessions == 0)
        window.tab.key("Enter")  # the button has the focus
        window.tab.until("!document.body?.classList.contains('-closed')")
        window.wait_for("FindCoordinator")
        window.press("q")
        window.tab.until("document.body.classList.contains('-closed')")
        source.unlink()
        window.tab.key("Enter")
        window.wait_for("kproxy: ")
        assert "bug.pcap.gz: No such file or directory" in window.rows[0]
        window.tab.until("document.body.classList.contains('-closed')")
