"""Open the page of a capture in a browser, and find its parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.peers.browser import BasicTab as Tab

BUG = Path(__file__).parents[2] / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
JAVA = Path(__file__).parents[2] / "data" / "pcap" / "java-4.3.1.pcap.gz"
CLEAN = Path(__file__).parents[2] / "data" / "pcap" / "sarama-4.3.1.pcap.gz"
RESPONSE = "document.querySelectorAll('.side')[1]"
MARKED = f"[...{RESPONSE}.querySelectorAll('.bytes b.marked[data-at]')].map((byte) => byte.dataset.at)"
NEAR = f"[...{RESPONSE}.querySelectorAll('.bytes b.near[data-at]')].map((byte) => byte.dataset.at)"


def show_page(tab: Tab, tmp_path: Path, source: Path, *options: str, width: int = 1440) -> None:
    page = tmp_path / "page.html"
    process = subprocess.run([sys.executable, "-m", "kproxy", "dissect", "--html", "--fail-on", "never", *options,
                             source], capture_output=True, check=True, timeout=120)  # fmt: skip
    page.write_bytes(process.stdout)
    tab.resize(width, 900)
    tab.navigate(page.as_uri())
    tab.until("document.documentElement?.dataset.ready")


def show_frames(tab: Tab, row: int | None = None) -> None:
    """Open the list of frames, or the frame in the given row."""
    tab.run(f"location.hash = '#/frames{'' if row is None else f'?row={row}'}'")
    tab.until("document.querySelector('#rows .row')")
    if row is not None:
        tab.until(f"document.documentElement.dataset.opened === '{row}' && document.querySelector('.side')")


def type_filter(tab: Tab, text: str) -> None:
    """Enter a filter."""
    tab.run(f"document.getElementById('filter').value = {json.dumps(text)}; "
            "document.getElementById('filter').dispatchEvent(new Event('input'))")  # fmt: skip


COUNT = "document.getElementById('count').textContent"
WRONG = "document.getElementById('wrong').textContent"


def row(name: str) -> str:
    """Return a JavaScript expression for a row of the list, by its text."""
    return f"[...document.querySelectorAll('#rows .row')].find((row) => row.textContent.includes({name!r}))"


def node(name: str) -> str:
    """Return a JavaScript expression for a field of the response, by its name."""
    nodes = f"[...{RESPONSE}.querySelectorAll('.node')]"
    return f"{nodes}.find((node) => node.querySelector('.name').textContent === {name!r})"


def choose_menu_item(tab: Tab, menu: str, item: str) -> None:
    """Choose an item from a menu."""
    buttons = "[...document.querySelectorAll('.menu button')]"
    tab.point(f"{buttons}.find((each) => each.textContent === {menu!r})", click=True)
    tab.until(f"{buttons}.find((each) => each.textContent.includes({item!r}) && each.offsetParent)")
    tab.point(f"{buttons}.find((each) => each.textContent.includes({item!r}))", click=True)
