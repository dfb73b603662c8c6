"""Tables of overviews are sorted, and lead to their frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.browser import BasicTab as Tab
from tests.peers.page.pages import COUNT, JAVA, show_page

pytestmark = pytest.mark.peers


def test_overview_links_to_its_errors(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/apis?key=JoinGroup'")
    errors = "[...document.querySelectorAll('.facts .links a')].find((link) => link.textContent === 'its errors')"
    tab.until(errors)
    assert "MEMBER_ID_REQUIRED 4x (routine)" in tab.run("document.querySelector('.facts dl').textContent")
    tab.point(errors, click=True)
    tab.until(f"{COUNT} === '4 of 436 rows'")


@pytest.mark.parametrize("view", ["connections", "apis", "topics", "groups", "clients", "brokers"])
def test_overview_links_to_its_frames(tab: Tab, tmp_path: Path, view: str) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run(f"location.hash = '#/{view}'")
    tab.until(f"document.body.dataset.view === '{view}' && document.querySelector('tbody tr a')")
    tab.point("document.querySelector('tbody tr a')", click=True)
    tab.until("document.querySelector('.facts a.primary')")
    tab.point("document.querySelector('.facts a.primary')", click=True)
    tab.until("document.body.dataset.view === 'frames' && document.querySelector('#rows .row')")
    tab.until(f"/^[1-9]\\d*( of 436)? rows$/.test({COUNT})")


def test_whole_table_header_sorts(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/topics'")
    tab.until("document.querySelector('thead th button')")
    widths = "[...document.querySelectorAll('thead th')].map((head) => head.clientWidth - head.firstChild.offsetWidth)"
    assert max(tab.run(widths)) <= 1


def test_columns_without_a_value_are_left_out(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/connections'")
    tab.until("document.body.dataset.view === 'connections' && document.querySelector('thead th button')")
    headings = tab.run("[...document.querySelectorAll('thead th')].map((heading) => heading.innerText)")
    assert "waiting" in headings  # it has zeros
    assert "throttled" not in headings
    assert tab.run("document.querySelectorAll('tbody tr:first-child td').length") == len(headings)
