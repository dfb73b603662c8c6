"""The list of frames and one exchange: clicks, hovering, keys, links, printing; the page makes no requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.trace.encoding import append_line
from kproxy.trace.lines import FindingEntry
from tests.kproxy.browse.sides import request_line
from tests.kproxy.browse.test_facts import lines_of_slow_group
from tests.kproxy.frames import request
from tests.peers.browser import BasicTab as Tab
from tests.peers.page.pages import (
    BUG,
    CLEAN,
    COUNT,
    JAVA,
    MARKED,
    NEAR,
    RESPONSE,
    choose_menu_item,
    node,
    row,
    show_frames,
    show_page,
    type_filter,
)
from tests.peers.toolchains import absent, node_modules, skip

pytestmark = pytest.mark.peers


def test_page_opens_with_the_causes(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    assert tab.run("document.querySelector('.cause .code').textContent") == "L005 field-from-newer-version"
    assert tab.run("document.querySelector('.cause a.primary').textContent").endswith("response to client producer-1")
    assert "do not write throttle_time_ms in version 2" in tab.run("document.querySelector('.cause .todo').textContent")
    tab.point("document.querySelector('.cause a.primary')", click=True)
    tab.until("document.querySelector('.finding')")
    assert tab.run("document.querySelector('.head h2').textContent") == "Metadata v2 on #0"
    assert {int(offset) for offset in tab.run(MARKED)} == {8, 9, 10, 11}
    tab.run("history.back()")
    tab.until("document.querySelector('.cause')")
    show_page(tab, tmp_path, CLEAN)
    assert tab.run("document.body.dataset.view") == "frames"
    assert tab.run("document.getElementById('detail').hidden")


def test_click_opens_an_exchange_and_marks_its_finding(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    show_frames(tab)
    tab.point(row("Metadata"), click=True)
    tab.until("document.querySelector('.finding')")
    assert tab.run("location.hash") == "#/frames?row=3"
    assert tab.run("document.querySelector('.finding .code').textContent") == "L005 field-from-newer-version"
    assert {int(offset) for offset in tab.run(MARKED)} == {8, 9, 10, 11}
    assert tab.run(f"{RESPONSE}.querySelector('.node.marked.blamed-error .name').textContent") == "throttle_time_ms"
    tab.point(node("size"), click=True)
    assert {int(offset) for offset in tab.run(MARKED)} == {0, 1, 2, 3}
    assert tab.run("location.hash") == "#/frames?row=3&at=response%3Asize"
    tab.point("document.querySelector('.finding')", click=True)
    assert {int(offset) for offset in tab.run(MARKED)} == {8, 9, 10, 11}
    blamed_bytes = f"[...{RESPONSE}.querySelectorAll('.bytes .blamed-error[data-at]')].map((byte) => byte.dataset.at)"
    assert {int(offset) for offset in tab.run(blamed_bytes)} == {8, 9, 10, 11}


def test_frame_with_another_layout_says_how_it_was_decoded(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    tab.point("document.querySelector('.cause a.primary')", click=True)
    tab.until("document.querySelector('.side')")
    assert "throttle_time_ms" in tab.run("document.querySelector('.side h3 .warning').title")
    assert tab.run("document.querySelector('.side h3 .warning').textContent") == "decoded as actually written"


def test_error_of_a_response_is_explained_and_its_field_is_marked(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    show_frames(tab)
    type_filter(tab, "error=MEMBER_ID_REQUIRED")
    tab.until("document.querySelectorAll('#rows .row').length === 4")
    tab.point("document.querySelector('#rows .row')", click=True)
    tab.until("document.querySelector('.refusal')")
    text = tab.run("document.querySelector('.refusal').textContent")
    assert text.startswith("MEMBER_ID_REQUIRED (routine): a new member gets its id (KIP-394).")
    tab.until("document.querySelector('.node.marked')")
    assert tab.run("document.querySelector('.node.marked .name').textContent") == "error_code"
    assert len(set(tab.run(MARKED))) == 2


def test_row_stays_selected_when_its_client_is_chosen(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA, width=375)
    show_frames(tab, row=200)
    tab.point("document.querySelectorAll('.head .grow a')[2]", click=True)
    tab.until("document.querySelector('#detail').hidden && document.querySelector('#rows .row.chosen')")
    assert tab.run("document.querySelector('#rows .row.chosen').id") == "row-200"
    chosen = "document.querySelector('#rows .row.chosen').getBoundingClientRect()"
    list_box = "document.getElementById('list').getBoundingClientRect()"
    assert tab.run(f"{chosen}.top >= {list_box}.top && {chosen}.bottom <= {list_box}.bottom")


def test_hovering_marks_fields_and_bytes(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    show_frames(tab, 3)
    tab.until(f"{RESPONSE}?.querySelector('.node')")
    tab.point(node("correlation_id"))
    assert {int(offset) for offset in tab.until(f"({NEAR}).length && {NEAR}")} == {4, 5, 6, 7}
    tab.point(f"{RESPONSE}.querySelector('.bytes b[data-at=\"1\"]')")
    tab.until(f"{RESPONSE}.querySelector('.node.near .name')?.textContent === 'size'")
    tab.point(f"{RESPONSE}.querySelector('.bytes b[data-at=\"5\"]')", click=True)
    tab.until(f"{RESPONSE}.querySelector('.node.marked .name')?.textContent === 'correlation_id'")
    assert {int(offset) for offset in tab.run(MARKED)} == {4, 5, 6, 7}


def test_keys_select_and_open_exchanges(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    tab.key("2")
    tab.until("document.querySelector('#rows .row')")
    chosen = "document.querySelector('#rows .chosen .api')?.textContent"
    for _ in range(4):
        tab.key("j")
    assert tab.run(chosen) == "Metadata v2"
    tab.key("k")
    assert tab.run(chosen) == "ApiVersions v3"
    tab.key("Enter")
    tab.until("document.querySelector('.head h2')?.textContent.includes('ApiVersions')")
    tab.key("j")
    tab.until("document.querySelector('.head h2')?.textContent.includes('Metadata')")
    tab.key("Escape")
    tab.until("document.getElementById('detail').hidden")
    tab.key("z")
    tab.until(f"{COUNT} === '2 of 11 rows'")  # one row repeats the finding of the other
    tab.key("z")
    tab.until(f"{COUNT} === '11 rows'")
    tab.key("/")
    for letter in "api=find*":
        tab.key(letter)
    tab.until(f"{COUNT} === '1 of 11 rows'")
    tab.key("Enter")
    tab.key("g")
    tab.key("Enter")
    tab.until("document.querySelector('.head h2')?.textContent.includes('FindCoordinator')")


def test_keys_reach_every_view_and_cause(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    tab.key("?")
    tab.until("document.getElementById('keys').matches(':popover-open')")
    tab.key("Escape")
    tab.until("!document.getElementById('keys').matches(':popover-open')")
    tab.key("[")
    tab.until("document.body.dataset.view === 'timelines'")  # the last view, before the first
    tab.key("]")
    tab.until("document.body.dataset.view === 'wrong' && document.querySelector('.cause')")
    tab.key("j")
    assert tab.run("document.activeElement.closest('.cause') === document.querySelector('.cause')")
    tab.key("Enter")
    tab.until("document.querySelector('.finding')")


def test_page_keys_continue_where_the_list_was_scrolled_to(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    show_frames(tab)
    tab.run("document.getElementById('list').focus()")
    chosen = "Number(document.querySelector('#rows .chosen')?.getAttribute('aria-rowindex') ?? 0)"
    tab.key("PageDown")
    first_page = tab.until(chosen)
    tab.run("document.getElementById('list').scrollTop = 200 * 24")
    tab.until("[...document.querySelectorAll('#rows .row')].some((row) => row.getAttribute('aria-rowindex') === '202')")
    tab.key("PageDown")
    assert tab.until(f"{chosen} > {first_page} && {chosen}") > 200


def test_back_and_forward_restore_the_page(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    show_frames(tab)
    type_filter(tab, "api=Metadata")
    tab.until(f"{COUNT} === '2 of 11 rows'")
    tab.point(row("Metadata"), click=True)
    tab.until("!document.getElementById('detail').hidden")
    tab.point("document.querySelector('#views [data-view=apis]')", click=True)
    tab.until("document.querySelector('tbody tr')")
    tab.run("history.back()")
    tab.until("document.querySelector('.finding')")
    tab.run("history.back()")
    tab.until("document.getElementById('detail').hidden")
    assert tab.run(COUNT) == "2 of 11 rows"
    tab.run("history.back()")
    tab.until(f"{COUNT} === '11 rows'")
    tab.run("history.forward()")
    tab.until(f"{COUNT} === '2 of 11 rows'")


def test_columns_can_be_sorted_and_hidden(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    show_frames(tab)
    first_latency = "document.querySelector('#rows .row .latency').textContent"
    tab.point("document.querySelector('#columns .latency button')", click=True)
    tab.until("document.querySelector('#columns .latency').getAttribute('aria-sort') === 'descending'")
    assert tab.run("location.hash") == "#/frames?sort=latency"
    assert tab.until(f"{first_latency}.endsWith(' ms') && {first_latency}") == "502 ms"
    show_page(tab, tmp_path, BUG)
    show_frames(tab)
    choose_menu_item(tab, "time ▾", "since the row above")
    assert tab.run("document.querySelectorAll('#rows .time')[1].textContent") == "0.670397"
    assert tab.run("document.querySelector('#columns .time').textContent.startsWith('s since above')")
    choose_menu_item(tab, "time ▾", "UTC")
    tab.point(
        "[...document.querySelectorAll('#tools button')].find((each) => each.textContent === 'columns ▾')", click=True
    )
    tab.run(
        "[...document.querySelectorAll('.menu-list label')].find((each) => each.textContent.includes('client')).click()"
    )
    tab.until("!document.querySelector('#columns .client')")
    tab.run(
        "[...document.querySelectorAll('.menu-list label')].find((each) => each.textContent.includes('client')).click()"
    )
    tab.until("document.querySelector('#columns .client')")


def test_frames_on_a_narrow_screen_have_their_time_and_client(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA, width=375)
    show_frames(tab)
    frame = row("Produce")
    tab.until(f"{frame}?.querySelector('.client').offsetHeight")
    shown = tab.run(f"['time', 'client', 'latency', 'api'].map((name) => {frame}.querySelector('.' + name).innerText)")
    assert all(shown), shown
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")


def test_keys_move_through_the_fields(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    show_frames(tab, 3)
    tab.run(f"{RESPONSE}.querySelector('.tree').focus()")
    marked = f"{RESPONSE}.querySelector('.node.marked .name').textContent"
    tab.key("ArrowUp")
    assert tab.run(marked) == "body"
    assert min(int(offset) for offset in tab.run(MARKED)) == 8
    tab.key("ArrowLeft")
    assert tab.run(f"{RESPONSE}.querySelectorAll('.node').length") == 4
    tab.key("ArrowRight")
    tab.key("ArrowDown")
    tab.key("ArrowDown")
    assert tab.run(marked) == "brokers"


def test_printing_includes_rows_off_the_screen(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    show_frames(tab)
    rows = "document.querySelectorAll('#rows .row').length"
    assert tab.run(rows) < 100
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert tab.run(rows) == 400
    assert "and 36 more" in tab.run("document.getElementById('rows').textContent")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(rows) < 100


def test_links_open_an_exchange_and_a_field(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
    tab.run("location.hash = '#9'")  # the form of older pages
    tab.until("document.querySelector('.head h2')?.textContent.includes('FindCoordinator')")
    tab.run("location.hash = '#/frames?row=3&at=response:body.brokers[0].host'")
    tab.until(f"{RESPONSE}?.querySelector('.node.marked .name')?.textContent === 'host'")
    assert tab.run("document.querySelector('.head h2').textContent") == "Metadata v2 on #0"


@pytest.mark.parametrize("width", [390, 1440])
def test_page_makes_no_requests_and_has_no_errors(tab: Tab, tmp_path: Path, width: int) -> None:
    hostile = "</script><img src=http://192.0.2.1/x onerror=document.title=1><b onclick=x>"
    finding = FindingEntry("L001", "trailing-bytes", "error", hostile, path=hostile, span=(8, 12), hint=hostile)
    frame = request("Metadata", 1, {"topics": [{"name": hostile}]})
    line = request_line(frame, client_id=hostile, findings=[finding])
    trace = tmp_path / "hostile.jsonl"
    encoded = bytearray()
    append_line(line, encoded)
    trace.write_bytes(encoded)
    show_page(tab, tmp_path, trace, width=width)
    assert hostile in tab.run("document.querySelector('.cause .message').textContent")
    for view in ("connections", "apis", "topics", "groups", "transactions", "clients", "brokers", "records"):
        tab.run(f"location.hash = '#/{view}'")
        tab.until(f"document.body.dataset.view === '{view}' && document.querySelector('table thead th')")
        assert tab.run("document.documentElement.scrollWidth <= innerWidth"), view
    show_frames(tab, 0)
    assert tab.run("[...document.images].length + document.querySelectorAll('b[onclick]').length") == 0
    assert hostile in tab.run("document.querySelector('.finding .message').textContent")
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert {*tab.requested_urls()} <= {(tmp_path / "page.html").as_uri()}  # Firefox does not report files
    assert tab.errors() == []


def test_another_view_shows_that_it_is_loading(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    show_frames(tab)
    tab.until(f"{COUNT} === '436 rows'")
    for view, count in (("clients", "rows"), ("records", "records in"), ("over-time", "exchanges"), ("wrong", "")):
        tab.run("window.counts = []; new MutationObserver(() => window.counts.push("
                f"{COUNT})).observe(document.getElementById('count'), {{ childList: true }});"
                f"location.hash = '#/{view}'")  # fmt: skip
        tab.until(f"window.counts.length > 1 && {COUNT} !== 'loading …' && {COUNT}.includes('{count}')")
        assert tab.run("window.counts[0]") == "loading …"


def test_group_that_is_behind_is_named_beside_the_causes(tab: Tab, tmp_path: Path) -> None:
    encoded = bytearray()
    for line in lines_of_slow_group():
        append_line(line, encoded)
    (tmp_path / "slow.jsonl").write_bytes(encoded)
    show_page(tab, tmp_path, tmp_path / "slow.jsonl")
    tab.run("location.hash = '#/wrong'")
    tab.until("document.querySelector('.causes a[href*=groups]')")
    text = tab.run("document.querySelector('.causes').textContent")
    assert "Group billing is 1 record behind: the client is slow since " in text
    tab.run("location.hash = document.querySelector('.causes a[href*=groups]').getAttribute('href')")
    tab.until("document.querySelector('.facts h2')?.textContent === 'billing'")


@pytest.mark.parametrize("tab", ["chromium"], indirect=True)  # axe reads the same document in each browser
def test_page_has_no_serious_accessibility_violations(tab: Tab, tmp_path: Path) -> None:
    if reason := absent("npm"):
        skip(reason)
    axe = (node_modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    faults = (
        "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations"
        ".filter(({ impact }) => impact === 'serious' || impact === 'critical')"
        ".map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ target }) => target.join(' ')).join(', ')}`))"
    )
    for source in (JAVA, BUG):
        show_page(tab, tmp_path, source)
        tab.run(f"{axe}; true")
        views = [
            *tab.run("[...document.querySelectorAll('#views a')].map((link) => link.dataset.view)"),
            "frames?row=3",
        ]
        for view in views:
            name = view.partition("?")[0]
            tab.run(f"location.hash = '#/{view}'")
            tab.until(f"document.body.dataset.view === '{name}' && document.getElementById('view').textContent")
            if "?" in view:
                tab.until("document.querySelector('.side')")
            for theme in ("light", "dark"):
                tab.run(f"document.documentElement.dataset.theme = '{theme}'")
                assert tab.run(faults) == [], (view, theme)
