"""The page of `kproxy dissect --html` in a browser: clicked, hovered, steered by keys; it asks nobody for anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.trace.encoding import append_line
from kproxy.trace.lines import FindingEntry
from tests.kproxy.browse.sides import request_line
from tests.kproxy.frames import request
from tests.peers.browser import Tab

pytestmark = pytest.mark.peers

_BUG = Path(__file__).parents[1] / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
_JAVA = Path(__file__).parents[1] / "data" / "pcap" / "java-4.3.1.pcap.gz"

_RESPONSE = "document.querySelectorAll('.side')[1]"
_MARKED = f"[...{_RESPONSE}.querySelectorAll('.bytes b.marked[data-at]')].map((byte) => byte.dataset.at)"
_NEAR = f"[...{_RESPONSE}.querySelectorAll('.bytes b.near[data-at]')].map((byte) => byte.dataset.at)"


def show(tab: Tab, tmp_path: Path, source: Path, *, width: int = 1440) -> None:
    page = tmp_path / "page.html"
    made = subprocess.run([sys.executable, "-m", "kproxy", "dissect", "--html", "--fail-on", "never", source],
                          capture_output=True, check=True, timeout=120)  # fmt: skip
    page.write_bytes(made.stdout)
    tab.events.clear()
    tab.resize(width, 900)
    tab.call("Page.navigate", url=page.as_uri())
    tab.until("document.documentElement?.dataset.ready")


def row(name: str) -> str:
    """A row of the list by its text."""
    return f"[...document.querySelectorAll('#rows .row')].find((row) => row.textContent.includes({name!r}))"


def node(name: str) -> str:
    """A field of the response by its name."""
    nodes = f"[...{_RESPONSE}.querySelectorAll('.node')]"
    return f"{nodes}.find((node) => node.querySelector('.name').textContent === {name!r})"


def test_a_click_opens_an_exchange_and_the_finding_is_marked(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _BUG)
    tab.point(row("Metadata"), click=True)
    tab.until("document.querySelector('.finding')")
    assert tab.run("location.hash") == "#4"
    assert tab.run("document.querySelector('.finding .code').textContent") == "L005 field-from-newer-version"
    assert {int(at) for at in tab.run(_MARKED)} == {8, 9, 10, 11}
    assert tab.run(f"{_RESPONSE}.querySelector('.node.marked.blamed-error .name').textContent") == "throttle_time_ms"
    tab.point(node("size"), click=True)
    assert {int(at) for at in tab.run(_MARKED)} == {0, 1, 2, 3}
    tab.point("document.querySelector('.finding')", click=True)
    assert {int(at) for at in tab.run(_MARKED)} == {8, 9, 10, 11}
    wrong = f"[...{_RESPONSE}.querySelectorAll('.bytes .blamed-error[data-at]')].map((byte) => byte.dataset.at)"
    assert {int(at) for at in tab.run(wrong)} == {8, 9, 10, 11}


def test_what_is_hovered_in_one_is_marked_in_the_other(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _BUG)
    tab.point(row("Metadata"), click=True)
    tab.until(f"{_RESPONSE}?.querySelector('.node')")
    tab.point(node("correlation_id"))
    assert {int(at) for at in tab.until(f"({_NEAR}).length && {_NEAR}")} == {4, 5, 6, 7}
    tab.point(f"{_RESPONSE}.querySelector('.bytes b[data-at=\"1\"]')")
    tab.until(f"{_RESPONSE}.querySelector('.node.near .name')?.textContent === 'size'")
    tab.point(f"{_RESPONSE}.querySelector('.bytes b[data-at=\"5\"]')", click=True)
    tab.until(f"{_RESPONSE}.querySelector('.node.marked .name')?.textContent === 'correlation_id'")
    assert {int(at) for at in tab.run(_MARKED)} == {4, 5, 6, 7}


def test_keys(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _BUG)
    chosen = "document.querySelector('#rows .chosen .api').textContent"
    assert tab.run(chosen) == "Metadata v2"  # where the worst finding is
    tab.key("k")
    assert tab.run(chosen) == "ApiVersions v3"
    tab.key("Enter")
    tab.until("!document.getElementById('detail').hidden")
    tab.key("j")
    tab.until("document.querySelector('.head h2')?.textContent.includes('Metadata')")
    tab.key("Escape")
    tab.until("document.getElementById('detail').hidden")
    tab.key("z")
    assert tab.run("document.getElementById('count').textContent") == "1 of 11 rows"
    tab.key("z")
    tab.key("/")
    for letter in "findcoord":
        tab.key(letter)
    assert tab.run("document.getElementById('count').textContent") == "1 of 11 rows"
    tab.key("Enter")
    tab.key("Enter")
    tab.until("document.querySelector('.head h2')?.textContent.includes('FindCoordinator')")


def test_keys_in_the_fields(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _BUG)
    tab.key("Enter")
    tab.until("document.querySelector('.finding')")
    tab.run(f"{_RESPONSE}.querySelector('.tree').focus()")
    marked = f"{_RESPONSE}.querySelector('.node.marked .name').textContent"
    tab.key("ArrowUp")
    assert tab.run(marked) == "body"
    assert min(int(at) for at in tab.run(_MARKED)) == 8
    tab.key("ArrowLeft")
    assert tab.run(f"{_RESPONSE}.querySelectorAll('.node').length") == 4
    tab.key("ArrowRight")
    tab.key("ArrowDown")
    tab.key("ArrowDown")
    assert tab.run(marked) == "brokers"


def test_on_paper_there_is_what_is_off_the_screen(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _JAVA)
    rows = "document.querySelectorAll('#rows .row').length"
    assert tab.run(rows) < 100
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert tab.run(rows) == 400
    assert "and 36 more" in tab.run("document.getElementById('rows').textContent")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(rows) < 100


def test_a_link_opens_its_exchange(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _BUG)
    tab.run("location.hash = '#9'")
    tab.until("document.querySelector('.head h2')?.textContent.includes('FindCoordinator')")
    tab.point("document.querySelector('.cause')", click=True)
    tab.until("document.querySelector('.head h2')?.textContent.includes('Metadata')")


def test_records_and_long_lists(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path, _JAVA)
    tab.key("G")
    assert tab.run("document.querySelector('#rows .chosen').id") == "row-435"
    assert tab.run("document.querySelectorAll('#rows .row').length") < 100
    tab.run("document.getElementById('filter').value = 'produce v13'; "
            "document.getElementById('filter').dispatchEvent(new Event('input'))")  # fmt: skip
    tab.point(row("Produce"), click=True)
    records = "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent.includes('record'))"
    tab.until(records)
    tab.point(records, click=True)
    assert tab.run("document.querySelector('.record pre').textContent").startswith("key-")


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_asked_for_and_nothing_goes_wrong(tab: Tab, tmp_path: Path, width: int) -> None:
    hostile = "</script><img src=http://192.0.2.1/x onerror=document.title=1><b onclick=x>"
    finding = FindingEntry("L001", "trailing-bytes", "error", hostile, path=hostile, span=(8, 12), hint=hostile)
    frame = request("Metadata", 1, {"topics": [{"name": hostile}]})
    line = request_line(frame, client_id=hostile, findings=[finding])
    trace = tmp_path / "hostile.jsonl"
    out = bytearray()
    append_line(line, out)
    trace.write_bytes(out)
    show(tab, tmp_path, trace, width=width)
    tab.key("Enter")
    tab.until("document.querySelector('.finding')")
    assert tab.run("[...document.images].length + document.querySelectorAll('b[onclick]').length") == 0
    assert hostile in tab.run("document.querySelector('.finding .message').textContent")
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.asked() == [(tmp_path / "page.html").as_uri()]
    wrong = [event for event in tab.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    assert wrong == []
