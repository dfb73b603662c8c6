"""`kproxy web` in a browser: its windows, what they ask, who may come in, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.kproxy.frames import request
from tests.kproxy.tui.terminal import environment
from tests.peers.browser import Browser, Tab
from tests.peers.web import opened, web

pytestmark = pytest.mark.peers

_ROOT = Path(__file__).parents[2]
_BUG = _ROOT / "tests" / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
_JAVA = _ROOT / "tests" / "data" / "pcap" / "java-4.3.1.pcap.gz"
_COUNT = "document.getElementById('count').textContent"
_HEAD = "document.querySelector('.head h2')?.textContent"


@pytest.fixture(scope="module")
def chromium(tab: Tab) -> Browser:
    return tab.browser


@pytest.fixture
def alone() -> Iterator[Mapping[str, str]]:
    """An environment in which there are no other proxies."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        yield {**os.environ, **environment(Path(directory))}


def test_a_capture_filtered_opened_and_linked(chromium: Browser, tmp_path: Path) -> None:
    with web(_JAVA, cwd=tmp_path) as server:
        chromium.events.clear()
        window = opened(chromium, server.address)
        window.until("document.querySelector('#views a')")
        window.run("location.hash = '#/frames'")
        window.until(f"{_COUNT} === '436 rows'")
        window.key("/")
        for letter in "api=JoinGroup and error":
            window.key(letter)
        window.until(f"{_COUNT} === '4 of 436 rows'")
        window.key("Enter")
        window.key("Enter")
        window.until(f"({_HEAD} || '').includes('JoinGroup')")
        window.until("document.querySelectorAll('.side .bytes').length > 3")
        link = window.run("location.href")
        assert "#/frames?filter=api%3DJoinGroup+and+error&row=" in link
        other = opened(chromium, link)
        other.until(f"({_HEAD} || '').includes('JoinGroup')")
        assert other.run(_COUNT) == "4 of 436 rows"
        opener = "[...document.querySelectorAll('#tools button')].find((each) => each.textContent === 'download ▾')"
        other.run(f"{opener}.click()")
        item = "[...document.querySelectorAll('[role=menuitem]')].find((each) => each.textContent.includes('pcapng'))"
        other.run("HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.protocol]; }")
        other.run(f"{item}.click()")
        assert other.until("window.saved") == ["kproxy-rows.pcapng", "blob:"]
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
            other.run(f"location.hash = '#/{view}'")
            other.until(f"document.body.dataset.view === '{view}' && document.querySelector('tbody tr, .cause')")
        place = server.address.partition("?token=")[0]
        assert all(address.startswith((place, "data:")) for address in other.asked())
        wrong = [event for event in chromium.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
        assert wrong == []


def test_the_token_leaves_the_address_and_stays_as_a_cookie(chromium: Browser, tmp_path: Path) -> None:
    with web(_BUG, cwd=tmp_path) as server:
        place, _, token = server.address.partition("?token=")
        outside = Tab(chromium)
        for address in (place, f"{place}?token={token[:-1]}"):
            outside.call("Page.navigate", url=address)
            outside.until("document.body?.innerText.includes('including its token')")
        window = opened(chromium, server.address)
        assert window.run("location.href") == f"{place}#/wrong"
        assert window.run("document.cookie") == ""
        window.call("Page.reload")
        window.until("document.querySelector('.cause')")
        window.call("Network.clearBrowserCookies")
        asked = window.run(f"""new Promise((told) => {{
            const socket = new WebSocket("{place.replace("http", "ws")}api/events");
            socket.onopen = () => told("opened");
            socket.onerror = () => told("refused");
        }})""")
        assert asked == "refused"


def test_windows_of_a_proxy_follow_it_and_say_when_it_is_gone(
    chromium: Browser, tmp_path: Path, alone: Mapping[str, str]
) -> None:
    with web("--listen", "127.0.0.1:0", "--upstream", "--no-trace", cwd=tmp_path, env=alone) as server:
        one = opened(chromium, server.address)
        files = "document.getElementById('files').textContent"
        port = int(one.until(f"/127.0.0.1:(\\d+)/.exec({files})?.[1]"))
        two = opened(chromium, server.address.partition("?")[0] + "#/clients", width=375)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(request("ApiVersions", 0, {}, correlation_id=7, client_id="tester"))
            assert client.recv(65536)
            one.until("document.getElementById('rows')?.textContent.includes('tester')")
            two.until("document.querySelector('tbody')?.textContent.includes('tester')")
        assert two.run("document.documentElement.scrollWidth <= innerWidth")
        os.killpg(server.process.pid, signal.SIGINT)  # as Ctrl-C does
        assert server.process.communicate(timeout=60)[1].count("Traceback") == 0
        assert server.process.returncode == 0
        one.until("!document.getElementById('lost').hidden")


def test_a_capture_that_is_still_read_opens_with_what_is_wrong(chromium: Browser, tmp_path: Path) -> None:
    with web(_ROOT / "captures" / "join-group-never-synced.pcap.gz", cwd=tmp_path) as server:
        window = opened(chromium, server.address)
        assert window.run("location.hash") == "#/wrong"
        window.until("document.querySelector('.cause')")


def test_a_million_rows_scroll(chromium: Browser, tmp_path: Path) -> None:
    """The list is scaled: an element higher than a browser can lay out would end in the middle."""
    with web(_JAVA, cwd=tmp_path) as server:
        window = opened(chromium, server.address)
        window.run("location.hash = '#/frames'")
        window.until("document.querySelector('#rows .row')")
        found = window.run("""(async () => {
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
        assert found == [[True, True, True], 8_000_000, True]


def test_scrolling_leaves_most_of_a_frame_to_the_browser(chromium: Browser, tmp_path: Path) -> None:
    """Script, style and layout of a frame, in CPU time of the page's thread: a frame of 60 a second has 16.7 ms."""
    with web(_JAVA, cwd=tmp_path) as server:
        window = opened(chromium, server.address)
        window.run("location.hash = '#/frames'")
        window.until(f"{_COUNT} === '436 rows' && document.querySelector('#rows .row:not(.loading)')")
        window.call("Page.bringToFront")
        window.call("Performance.enable", timeDomain="threadTicks")

        def spent() -> float:
            metrics = {metric["name"]: metric["value"] for metric in window.call("Performance.getMetrics")["metrics"]}
            return sum(metrics[name] for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration"))

        before = spent()
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
        assert (spent() - before) / frames < 0.008
        assert loading < frames // 4  # rows are fetched before they are reached
