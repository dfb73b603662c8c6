"""`kproxy web` in a browser: windows, their requests, access control, and the end of the server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.kproxy.frames import request
from tests.kproxy.tui.terminal import environment
from tests.peers.browser import Browser, Tab
from tests.peers.firefox import firefox, firefox_executable
from tests.peers.processes import until
from tests.peers.toolchains import skip
from tests.peers.web import open_window, run_web

pytestmark = pytest.mark.peers

_ROOT = Path(__file__).parents[2]
_BUG = _ROOT / "tests" / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
_JAVA = _ROOT / "tests" / "data" / "pcap" / "java-4.3.1.pcap.gz"
_COUNT = "document.getElementById('count').textContent"
_DOWNLOAD_MENU = "[...document.querySelectorAll('#tools button')].find((button) => button.textContent === 'download ▾')"
_PCAPNG_ITEM = "[...document.querySelectorAll('[role=menuitem]')].find((item) => item.textContent.includes('pcapng'))"
_PAGE_ITEM = "[...document.querySelectorAll('[role=menuitem]')].find((item) => item.textContent.includes('HTML'))"
_HEADING = "document.querySelector('.head h2')?.textContent"


@pytest.fixture(scope="module")
def chromium(tab: Tab) -> Browser:
    return tab.browser


@pytest.fixture
def isolated_environment() -> Iterator[Mapping[str, str]]:
    """Yield an environment without other proxies."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        yield {**os.environ, **environment(Path(directory))}


def test_windows_filter_link_and_download_a_capture(chromium: Browser, tmp_path: Path) -> None:
    with run_web(_JAVA, cwd=tmp_path) as server:
        chromium.events.clear()
        window = open_window(chromium, server.address)
        window.until("document.querySelector('#views a')")
        window.run("location.hash = '#/frames'")
        window.until(f"{_COUNT} === '436 rows'")
        window.key("/")
        for letter in "api=JoinGroup and error":
            window.key(letter)
        window.until(f"{_COUNT} === '4 of 436 rows'")
        window.key("Enter")
        window.key("Enter")
        window.until(f"({_HEADING} || '').includes('JoinGroup')")
        window.until("document.querySelectorAll('.side .bytes').length > 3")
        link = window.run("location.href")
        assert "#/frames?filter=api%3DJoinGroup+and+error&row=" in link
        second_window = open_window(chromium, link)
        second_window.until(f"({_HEADING} || '').includes('JoinGroup')")
        assert second_window.run(_COUNT) == "4 of 436 rows"
        second_window.run(f"{_DOWNLOAD_MENU}.click()")
        second_window.run(
            "HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.protocol]; }"
        )
        second_window.run(f"{_PCAPNG_ITEM}.click()")
        assert second_window.until("window.saved") == ["kproxy-rows.pcapng", "blob:"]
        for view in (
            "wrong",
            "connections",
            "apis",
            "topics",
            "groups",
            "share-groups",
            "clients",
            "brokers",
            "records",
        ):
            second_window.run(f"location.hash = '#/{view}'")
            second_window.until(
                f"document.body.dataset.view === '{view}' && document.querySelector('tbody tr, .cause')"
            )
        origin = server.address.partition("?token=")[0]
        assert all(address.startswith((origin, "data:")) for address in second_window.requested_urls())
        error_events = [
            event for event in chromium.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
        ]
        assert error_events == []


def test_firefox_downloads_filtered_rows_as_a_capture(tmp_path: Path) -> None:
    program = firefox_executable()
    if program is None:
        skip("needs firefox on PATH")
    with run_web(_JAVA, cwd=tmp_path) as server, firefox(program, tmp_path / "profile") as tab:
        tab.navigate(server.address)
        tab.until("document.documentElement?.dataset.ready")
        tab.run("location.hash = '#/frames?filter=api%3DJoinGroup+and+error'")
        tab.until(f"{_COUNT} === '4 of 436 rows'")
        tab.run(f"{_DOWNLOAD_MENU}.click()")
        tab.run(f"{_PCAPNG_ITEM}.click()")
        capture = tmp_path / "profile" / "downloads" / "kproxy-rows.pcapng"
        until("the capture is saved", lambda: capture.exists() and capture.stat().st_size > 0)
    command = [sys.executable, "-m", "kproxy", "dissect", "--json", "-f", "error", capture]
    output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout
    assert [json.loads(line)["api"] for line in output.splitlines()] == ["JoinGroup"] * 4


def test_firefox_downloads_filtered_rows_as_a_page_that_needs_no_server(tmp_path: Path) -> None:
    program = firefox_executable()
    if program is None:
        skip("needs firefox on PATH")
    with firefox(program, tmp_path / "profile") as tab:
        with run_web(_JAVA, cwd=tmp_path) as server:
            tab.navigate(server.address)
            tab.until("document.documentElement?.dataset.ready")
            tab.run("location.hash = '#/frames?filter=api%3DJoinGroup+and+error'")
            tab.until(f"{_COUNT} === '4 of 436 rows'")
            tab.run(f"{_DOWNLOAD_MENU}.click()")
            tab.run(f"{_PAGE_ITEM}.click()")
            page = tmp_path / "profile" / "downloads" / "kproxy-rows.html"
            until("the page is saved", lambda: page.exists() and page.stat().st_size > 0)
        tab.navigate(page.as_uri())
        tab.until("document.documentElement?.dataset.ready")
        tab.run("location.hash = '#/frames'")
        tab.until("document.querySelectorAll('#rows .row').length === 4")
        tab.run("document.querySelector('#rows .row').click()")
        tab.until("document.querySelector('.refusal')?.textContent.startsWith('MEMBER_ID_REQUIRED')")
        tab.until("document.querySelectorAll('.side .bytes').length > 3")


def test_token_moves_from_the_address_to_a_cookie(chromium: Browser, tmp_path: Path) -> None:
    with run_web(_BUG, cwd=tmp_path) as server:
        origin, _, token = server.address.partition("?token=")
        tab_without_token = Tab(chromium)
        for address in (origin, f"{origin}?token={token[:-1]}"):
            tab_without_token.call("Page.navigate", url=address)
            tab_without_token.until("document.body?.innerText.includes('including its token')")
        window = open_window(chromium, server.address)
        assert window.run("location.href") == f"{origin}#/wrong"
        assert window.run("document.cookie") == ""
        window.call("Page.reload")
        window.until("document.querySelector('.cause')")
        window.call("Network.clearBrowserCookies")
        outcome = window.run(f"""new Promise((resolve) => {{
            const socket = new WebSocket("{origin.replace("http", "ws")}api/events");
            socket.onopen = () => resolve("opened");
            socket.onerror = () => resolve("refused");
        }})""")
        assert outcome == "refused"


def test_windows_follow_a_proxy_and_report_when_it_stops(
    chromium: Browser, tmp_path: Path, isolated_environment: Mapping[str, str]
) -> None:
    with run_web(
        "--listen", "127.0.0.1:0", "--upstream", "--no-trace", cwd=tmp_path, env=isolated_environment
    ) as server:
        first_window = open_window(chromium, server.address)
        files_text_js = "document.getElementById('files').textContent"
        port = int(first_window.until(f"/127.0.0.1:(\\d+)/.exec({files_text_js})?.[1]"))
        second_window = open_window(chromium, server.address.partition("?")[0] + "#/clients", width=375)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(request("ApiVersions", 0, {}, correlation_id=7, client_id="tester"))
            assert client.recv(65536)
            first_window.until("document.getElementById('rows')?.textContent.includes('tester')")
            second_window.until("document.querySelector('tbody')?.textContent.includes('tester')")
        assert second_window.run("document.documentElement.scrollWidth <= innerWidth")
        os.killpg(server.process.pid, signal.SIGINT)  # like Ctrl-C
        assert server.process.communicate(timeout=60)[1].count("Traceback") == 0
        assert server.process.returncode == 0
        first_window.until("!document.getElementById('lost').hidden")


def test_capture_opens_with_its_causes_while_it_is_being_read(chromium: Browser, tmp_path: Path) -> None:
    with run_web(_ROOT / "captures" / "join-group-never-synced.pcap.gz", cwd=tmp_path) as server:
        window = open_window(chromium, server.address)
        assert window.run("location.hash") == "#/wrong"
        window.until("document.querySelector('.cause')")


def test_list_scrolls_through_a_million_rows(chromium: Browser, tmp_path: Path) -> None:
    """The list must be scaled because browsers limit the height of an element."""
    with run_web(_JAVA, cwd=tmp_path) as server:
        window = open_window(chromium, server.address)
        window.run("location.hash = '#/frames'")
        window.until("document.querySelector('#rows .row')")
        measurements = window.run("""(async () => {
            const { Scroller } = await import("/app/scroller.js"), box = document.createElement("div");
            box.style.cssText = "position: absolute; height: 300px; width: 300px; overflow: auto";
            document.body.append(box);
            const draw = (number) => { const row = document.createElement("div");
              row.style.cssText = "position: absolute; height: 24px"; row.textContent = number; return row; };
            const list = new Scroller(box, () => 24, draw);
            list.set(1_000_000);
            const outer = box.getBoundingClientRect();
            const isSeen = (number) => {
              const row = list.drawn.get(number).getBoundingClientRect();
              return row.top >= outer.top - 1 && row.bottom <= outer.bottom + 1;
            };
            const at = [];
            for (const number of [0, 499_999, 999_999]) {
              list.show(number);
              list.paint();
              at.push(isSeen(number));
            }
            return [at, list.inner.offsetHeight, list.drawn.size < 80];
        })()""")
        assert measurements == [[True, True, True], 8_000_000, True]


def test_scrolling_takes_little_cpu_time_per_frame(chromium: Browser, tmp_path: Path) -> None:
    """Measure the CPU time of script, style and layout per frame; at 60 frames per second, a frame takes 16.7 ms."""
    with run_web(_JAVA, cwd=tmp_path) as server:
        window = open_window(chromium, server.address)
        window.run("location.hash = '#/frames'")
        window.until(f"{_COUNT} === '436 rows' && document.querySelector('#rows .row:not(.loading)')")
        window.call("Page.bringToFront")
        window.call("Performance.enable", timeDomain="threadTicks")

        def cpu_time() -> float:
            metrics = {metric["name"]: metric["value"] for metric in window.call("Performance.getMetrics")["metrics"]}
            return sum(metrics[name] for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration"))

        time_before = cpu_time()
        frames, loading = window.run("""(async () => {
          const list = document.querySelector(".sized").parentElement, frames = 100;
          let loading = 0;
          for (let frame = 0; frame < frames; frame++) {
            await new Promise(requestAnimationFrame);
            list.scrollTop += 60;
            loading += Boolean(document.querySelector("#rows .loading"));
          }
          return [list.scrollTop >= 5000 ? frames : 0, loading];
        })()""")
        assert frames
        assert (cpu_time() - time_before) / frames < 0.008
        assert loading < frames // 4  # rows are fetched before they are reached
