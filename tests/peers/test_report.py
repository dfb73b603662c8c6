"""The page of `kproxy analyze --html` in a browser: it draws charts, fits small screens and makes no requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.peers.browser import Tab

pytest.importorskip("pyspark")
pytestmark = pytest.mark.peers

_HOSTILE_NAME = "</script><img src=x onerror=alert(1)>"


def show_report(tab: Tab, tmp_path: Path, name: str = "orders", *, width: int = 1280) -> None:
    from kproxy.spark.report.pages import report
    from tests.kproxy.spark.report.pages import BEGIN_US, figures, listed

    def client(number: int) -> dict[str, Any]:
        return {"client": f"{name}-{number}", "requests": number, "hosts": 1, "connections": 1, "verdict": "works"}

    since = BEGIN_US + 60_000_000
    stall = {"group_id": name, "stall": "join-waits", "severity": "error", "since": since, "until": None,
             "duration_us": 9_000_000, "blamed": [name], "sentence": name, "look": name}  # fmt: skip
    finding = {"severity": "error", "code": "L005", "name": name, "client": name, "broker": name, "findings": 2,
             "first_at": BEGIN_US, "at": BEGIN_US, "message": name, "connection_id": "web-1-4711-5", "offset": 470,
             "direction": "response"}  # fmt: skip
    report_figures = figures(
        listed("clients", client(3), client(12), client(7)),
        listed("group-stalls", stall),
        listed("findings", finding),
        name=name,
    )
    page = tmp_path / "report.html"
    page.write_text(report(report_figures, [name]))
    tab.events.clear()
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    tab.call("Page.navigate", url=page.as_uri())
    tab.until("document.documentElement?.dataset.ready")


def test_page_draws_all_charts_and_makes_no_requests(tab: Tab, tmp_path: Path) -> None:
    show_report(tab, tmp_path, _HOSTILE_NAME)
    urls = [
        event["params"]["request"]["url"] for event in tab.events if event.get("method") == "Network.requestWillBeSent"
    ]
    assert [url.partition(":")[0] for url in urls] == ["file"]
    error_events = [
        event for event in tab.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
    ]
    assert error_events == []
    assert tab.run("document.querySelectorAll('img').length") == 0
    expected_counts = {"heat": 2, "traffic": 2, "brokers": 2, "error-bars": 1, "lanes": 2}
    mark_counts = {
        chart: tab.run(f"document.querySelectorAll('#{chart} svg > g rect').length") for chart in expected_counts
    }
    assert mark_counts == expected_counts
    assert tab.run("document.querySelector('#client-table td').textContent") == f"{_HOSTILE_NAME}-3"
    assert tab.run("document.querySelector('#finding-list pre').textContent") == (
        f"kproxy dissect --detail full -v -f 'connection_id=\"web-1-4711-5\" and offset=470' '{_HOSTILE_NAME}'"
    )


def test_button_selects_a_different_heat_map(tab: Tab, tmp_path: Path) -> None:
    show_report(tab, tmp_path)
    tab.run("document.querySelectorAll('#heat-choice button')[1].click()")
    assert tab.run("document.querySelectorAll('#heat svg > g rect').length") == 1
    assert tab.run("document.querySelector('#heat-choice [aria-checked=true]').textContent") == "orders"


def test_table_opens_from_its_link_and_can_be_sorted(tab: Tab, tmp_path: Path) -> None:
    show_report(tab, tmp_path)
    tab.run("location.hash = '#table-clients'")
    column = "[...document.querySelectorAll('#table-clients tbody tr')].map((row) => row.cells[7].textContent)"
    assert tab.until(f"({column}).length && {column}") == ["3", "12", "7"]
    column_header = "document.querySelectorAll('#table-clients th button')[7]"
    tab.run(f"{column_header}.click()")
    assert tab.run(column) == ["12", "7", "3"]
    tab.run(f"{column_header}.click()")
    assert tab.run(column) == ["3", "7", "12"]


def test_page_fits_the_width_of_a_phone(tab: Tab, tmp_path: Path) -> None:
    show_report(tab, tmp_path, "a-name-without-a-space-" * 8, width=390)
    assert tab.run("document.documentElement.scrollWidth") <= 390
