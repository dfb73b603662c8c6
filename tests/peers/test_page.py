"""The page of `kproxy dissect --html` in a browser: it responds to clicks, hovering and keys, and makes no requests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.html.assemble import MODULES, join_modules
from kproxy.trace.encoding import append_line, encode_json
from kproxy.trace.lines import FindingEntry
from tests.kproxy.browse.pictures.test_over_time import draw_over_time
from tests.kproxy.browse.pictures.test_topics_over_time import draw_topics_over_time as topics_picture
from tests.kproxy.browse.pictures.test_topics_over_time import fetch_exchange
from tests.kproxy.browse.sessions import session_of_capture
from tests.kproxy.browse.sides import request_line
from tests.kproxy.browse.test_facts import lines_of_slow_group
from tests.kproxy.capture_results import lines_of
from tests.kproxy.cli.test_payloads import produce, write_capture
from tests.kproxy.frames import request
from tests.kproxy.html.filters import lines, match_results, match_results_script, sample_texts
from tests.kproxy.html.pages import page_of
from tests.kproxy.html.test_matching_records import FILTERED
from tests.peers.browser import BasicTab as Tab
from tests.peers.browser import browser, executable
from tests.peers.firefox import firefox, firefox_executable
from tests.peers.toolchains import absent, node_modules, skip

pytestmark = pytest.mark.peers

_BUG = Path(__file__).parents[1] / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
_JAVA = Path(__file__).parents[1] / "data" / "pcap" / "java-4.3.1.pcap.gz"

_CLEAN = Path(__file__).parents[1] / "data" / "pcap" / "sarama-4.3.1.pcap.gz"

_RESPONSE = "document.querySelectorAll('.side')[1]"
_MARKED = f"[...{_RESPONSE}.querySelectorAll('.bytes b.marked[data-at]')].map((byte) => byte.dataset.at)"
_NEAR = f"[...{_RESPONSE}.querySelectorAll('.bytes b.near[data-at]')].map((byte) => byte.dataset.at)"


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def tab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = firefox_executable() if request.param == "firefox" else executable()
    if program is None:
        skip(f"needs {request.param} on PATH")
    start = firefox if request.param == "firefox" else browser
    with start(program, tmp_path_factory.mktemp("profile")) as opened_tab:
        yield opened_tab


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
    nodes = f"[...{_RESPONSE}.querySelectorAll('.node')]"
    return f"{nodes}.find((node) => node.querySelector('.name').textContent === {name!r})"


def test_page_opens_with_the_causes(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    assert tab.run("document.querySelector('.cause .code').textContent") == "L005 field-from-newer-version"
    assert tab.run("document.querySelector('.cause a.primary').textContent").endswith("response to client producer-1")
    assert "do not write throttle_time_ms in version 2" in tab.run("document.querySelector('.cause .todo').textContent")
    tab.point("document.querySelector('.cause a.primary')", click=True)
    tab.until("document.querySelector('.finding')")
    assert tab.run("document.querySelector('.head h2').textContent") == "Metadata v2 on #0"
    assert {int(offset) for offset in tab.run(_MARKED)} == {8, 9, 10, 11}
    tab.run("history.back()")
    tab.until("document.querySelector('.cause')")
    show_page(tab, tmp_path, _CLEAN)
    assert tab.run("document.body.dataset.view") == "frames"
    assert tab.run("document.getElementById('detail').hidden")


def test_filters_match_the_same_lines_as_on_the_command_line(tab: Tab) -> None:
    texts, sample = sample_texts(), lines()
    page_results = tab.run(match_results_script(texts, sample))
    for text, expected, actual in zip(texts, match_results(texts, sample), page_results, strict=True):
        assert actual == expected, text


def test_filter_treats_request_and_response_as_one(tab: Tab, tmp_path: Path) -> None:
    text = "acks=-1 and error=0"  # one is in the request, the other in the response
    expected_page, _ = page_of(lines_of(_JAVA), chosen=text)
    show_page(tab, tmp_path, _JAVA)
    show_frames(tab)
    type_filter(tab, text)
    tab.until(f"{COUNT} === '{len(expected_page.unpacked('rows'))} of 436 rows'")
    type_filter(tab, "api=Metadat")
    assert tab.until(WRONG) == "unknown api 'Metadat' at column 5: did you mean 'Metadata'?"
    assert tab.run(COUNT) == f"{len(expected_page.unpacked('rows'))} of 436 rows"  # the count for the previous filter
    type_filter(tab, "")
    tab.until(f"{COUNT} === '436 rows'")
    assert tab.run(WRONG) == ""


def test_decoded_records_are_filtered_and_shown(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, write_capture(tmp_path / "a.pcap", produce()), "--payloads")
    show_frames(tab)
    type_filter(tab, "value.card.number=planted and not value.id=6")
    tab.until(f"{COUNT} === '1 of 3 rows'")
    tab.point(row("Produce"), click=True)
    chooser = "[...document.querySelectorAll('.tabs button')].find((each) => each.textContent === '4 records')"
    tab.until(chooser)
    tab.run(f"{chooser}.click()")
    records_text = tab.run("document.querySelector('.list-of-records').textContent")
    assert '"number": "planted"' in records_text
    assert "text? id 17: no schema" in records_text
    assert "k2text?" not in records_text  # a text needs no label


def test_page_explains_a_filter_without_matches(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    show_frames(tab)
    type_filter(tab, "topic~'<b>x'")
    message = "document.querySelector('#rows .none')?.textContent"
    tab.until(f"{COUNT} === '0 of 11 rows'")
    assert tab.run(message) == "nothing matches topic~'<b>x'; clear it"
    tab.point("document.querySelector('#rows .none .clear')", click=True)
    tab.until(f"{COUNT} === '11 rows'")
    assert tab.run("document.getElementById('filter').value") == ""
    type_filter(tab, "api=ApiVersions")
    tab.until(f"{COUNT} === '4 of 11 rows'")
    tab.run("document.getElementById('list').focus()")
    tab.key("z")
    tab.until(message)
    assert tab.run(message) == "no row with a finding matches api=ApiVersions; clear it"


def test_click_opens_an_exchange_and_marks_its_finding(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    show_frames(tab)
    tab.point(row("Metadata"), click=True)
    tab.until("document.querySelector('.finding')")
    assert tab.run("location.hash") == "#/frames?row=3"
    assert tab.run("document.querySelector('.finding .code').textContent") == "L005 field-from-newer-version"
    assert {int(offset) for offset in tab.run(_MARKED)} == {8, 9, 10, 11}
    assert tab.run(f"{_RESPONSE}.querySelector('.node.marked.blamed-error .name').textContent") == "throttle_time_ms"
    tab.point(node("size"), click=True)
    assert {int(offset) for offset in tab.run(_MARKED)} == {0, 1, 2, 3}
    assert tab.run("location.hash") == "#/frames?row=3&at=response%3Asize"
    tab.point("document.querySelector('.finding')", click=True)
    assert {int(offset) for offset in tab.run(_MARKED)} == {8, 9, 10, 11}
    blamed_bytes = f"[...{_RESPONSE}.querySelectorAll('.bytes .blamed-error[data-at]')].map((byte) => byte.dataset.at)"
    assert {int(offset) for offset in tab.run(blamed_bytes)} == {8, 9, 10, 11}


def test_frame_with_another_layout_says_how_it_was_decoded(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    tab.point("document.querySelector('.cause a.primary')", click=True)
    tab.until("document.querySelector('.side')")
    assert "throttle_time_ms" in tab.run("document.querySelector('.side h3 .warning').title")
    assert tab.run("document.querySelector('.side h3 .warning').textContent") == "decoded as actually written"


def test_error_of_a_response_is_explained_and_its_field_is_marked(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    show_frames(tab)
    type_filter(tab, "error=MEMBER_ID_REQUIRED")
    tab.until("document.querySelectorAll('#rows .row').length === 4")
    tab.point("document.querySelector('#rows .row')", click=True)
    tab.until("document.querySelector('.refusal')")
    text = tab.run("document.querySelector('.refusal').textContent")
    assert text.startswith("MEMBER_ID_REQUIRED (routine): a new member gets its id (KIP-394).")
    tab.until("document.querySelector('.node.marked')")
    assert tab.run("document.querySelector('.node.marked .name').textContent") == "error_code"
    assert len(set(tab.run(_MARKED))) == 2


def test_row_stays_selected_when_its_client_is_chosen(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA, width=375)
    show_frames(tab, row=200)
    tab.point("document.querySelectorAll('.head .grow a')[2]", click=True)
    tab.until("document.querySelector('#detail').hidden && document.querySelector('#rows .row.chosen')")
    assert tab.run("document.querySelector('#rows .row.chosen').id") == "row-200"
    chosen = "document.querySelector('#rows .row.chosen').getBoundingClientRect()"
    list_box = "document.getElementById('list').getBoundingClientRect()"
    assert tab.run(f"{chosen}.top >= {list_box}.top && {chosen}.bottom <= {list_box}.bottom")


def test_hovering_marks_fields_and_bytes(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    show_frames(tab, 3)
    tab.until(f"{_RESPONSE}?.querySelector('.node')")
    tab.point(node("correlation_id"))
    assert {int(offset) for offset in tab.until(f"({_NEAR}).length && {_NEAR}")} == {4, 5, 6, 7}
    tab.point(f"{_RESPONSE}.querySelector('.bytes b[data-at=\"1\"]')")
    tab.until(f"{_RESPONSE}.querySelector('.node.near .name')?.textContent === 'size'")
    tab.point(f"{_RESPONSE}.querySelector('.bytes b[data-at=\"5\"]')", click=True)
    tab.until(f"{_RESPONSE}.querySelector('.node.marked .name')?.textContent === 'correlation_id'")
    assert {int(offset) for offset in tab.run(_MARKED)} == {4, 5, 6, 7}


def test_keys_select_and_open_exchanges(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
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
    show_page(tab, tmp_path, _BUG)
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
    show_page(tab, tmp_path, _JAVA)
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
    show_page(tab, tmp_path, _BUG)
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


def test_filter_completes_and_searches_plain_text(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    show_frames(tab)
    tab.key("/")
    for letter in "api=Metad":
        tab.key(letter)
    suggestions = "[...document.querySelectorAll('#completions:not([hidden]) li')].map((each) => each.textContent)"
    tab.until(f"{suggestions}.includes('Metadata')")
    tab.key("Tab")
    tab.until(f"{COUNT} === '2 of 11 rows'")
    assert tab.run("document.getElementById('filter').value") == "api=Metadata"
    type_filter(tab, "findCOORD")
    tab.until("!document.getElementById('as-text').hidden")
    tab.until(f"{COUNT} === '1 of 11 rows'")
    assert tab.run(row("FindCoordinator") + " !== undefined")


def test_columns_can_be_sorted_and_hidden(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    show_frames(tab)
    first_latency = "document.querySelector('#rows .row .latency').textContent"
    tab.point("document.querySelector('#columns .latency button')", click=True)
    tab.until("document.querySelector('#columns .latency').getAttribute('aria-sort') === 'descending'")
    assert tab.run("location.hash") == "#/frames?sort=latency"
    assert tab.until(f"{first_latency}.endsWith(' ms') && {first_latency}") == "502 ms"
    show_page(tab, tmp_path, _BUG)
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


def choose_menu_item(tab: Tab, menu: str, item: str) -> None:
    """Choose an item from a menu."""
    buttons = "[...document.querySelectorAll('.menu button')]"
    tab.point(f"{buttons}.find((each) => each.textContent === {menu!r})", click=True)
    tab.until(f"{buttons}.find((each) => each.textContent.includes({item!r}) && each.offsetParent)")
    tab.point(f"{buttons}.find((each) => each.textContent.includes({item!r}))", click=True)


def test_filter_without_causes_can_be_cleared(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _CLEAN)
    tab.run("location.hash = '#/wrong?filter=api%3DProduce'")
    tab.until("document.querySelector('.causes h2')")
    texts = tab.run("[...document.querySelector('.causes').childNodes].map((node) => node.textContent)")
    assert texts == ["What is wrong", "No finding in what matches api=Produce; clear the filter"]
    tab.point("document.querySelector('.causes .clear')", click=True)
    tab.until("document.querySelector('.causes .none').textContent === 'Nothing wrong was found.'")
    assert tab.run("document.getElementById('filter').value") == ""


def test_overview_links_to_its_errors(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/apis?key=JoinGroup'")
    errors = "[...document.querySelectorAll('.facts .links a')].find((link) => link.textContent === 'its errors')"
    tab.until(errors)
    assert "MEMBER_ID_REQUIRED 4x (routine)" in tab.run("document.querySelector('.facts dl').textContent")
    tab.point(errors, click=True)
    tab.until(f"{COUNT} === '4 of 436 rows'")


@pytest.mark.parametrize("view", ["connections", "apis", "topics", "groups", "clients", "brokers"])
def test_overview_links_to_its_frames(tab: Tab, tmp_path: Path, view: str) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run(f"location.hash = '#/{view}'")
    tab.until(f"document.body.dataset.view === '{view}' && document.querySelector('tbody tr a')")
    tab.point("document.querySelector('tbody tr a')", click=True)
    tab.until("document.querySelector('.facts a.primary')")
    tab.point("document.querySelector('.facts a.primary')", click=True)
    tab.until("document.body.dataset.view === 'frames' && document.querySelector('#rows .row')")
    tab.until(f"/^[1-9]\\d*( of 436)? rows$/.test({COUNT})")


def test_records_view_links_to_frames(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/records?filter=api%3DProduce'")
    tab.until("document.querySelectorAll('table.records tbody tr').length > 20")
    assert "key-" in tab.run("document.querySelector('table.records tbody').textContent")
    tab.run("document.querySelector('table.records tbody a').click()")
    tab.until("document.querySelector('.head h2')?.textContent.includes('Produce')")


def test_records_are_sorted_by_a_column(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/records?filter=api%3DProduce'")
    tab.until("document.querySelectorAll('table.records tbody tr').length > 20")
    keys = "[...document.querySelectorAll('table.records tbody tr')].map((row) => row.cells[3].innerText)"
    unsorted_keys = tab.run(keys)
    for order, direction in (("key", "ascending"), ("-key", "descending")):
        tab.point("document.querySelector('table.records th:nth-child(4) button')", click=True)
        tab.until(f"document.querySelector('table.records th[aria-sort={direction}]')")
        assert tab.run("location.hash").endswith(f"&sort={order}")
        assert tab.run(keys) == sorted(unsorted_keys, reverse=order.startswith("-"))
    tab.point("document.querySelector('table.records th:nth-child(4) button')", click=True)
    tab.until("!document.querySelector('table.records th[aria-sort]')")
    assert tab.run(keys) == unsorted_keys


def test_records_of_a_fetch_have_the_time_of_its_response(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/records'")
    tab.until("document.querySelectorAll('table.records tbody tr').length > 20")
    cells = "[0, 1, 2, 6].map((column) => row.cells[column].innerText)"
    script = f"[...document.querySelectorAll('table.records tbody tr')].map((row) => {cells})"
    records = [(time, (partition, offset), "Produce" in frame) for time, partition, offset, frame in tab.run(script)]
    assert [time for time, _, _ in records] == sorted(time for time, _, _ in records)
    produced_at = {place: row for row, (_, place, is_produced) in enumerate(records) if is_produced}
    fetched_at = {place: row for row, (_, place, is_produced) in enumerate(records) if not is_produced}
    clients = tab.run("[...document.querySelectorAll('table.records tbody tr')].map((row) => row.cells[7].innerText)")
    assert all(clients)
    places = produced_at.keys() & fetched_at.keys()
    assert places
    assert all(produced_at[place] < fetched_at[place] for place in places)
    script = "[...document.querySelectorAll('table.records tbody tr')].map((row) => row.cells[8].innerText)"
    deliveries = tab.run(script)
    assert {place for place, row in fetched_at.items() if deliveries[row]} == places
    assert not any(deliveries[row] for row in produced_at.values())


def test_frames_on_a_narrow_screen_have_their_time_and_client(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA, width=375)
    show_frames(tab)
    frame = row("Produce")
    tab.until(f"{frame}?.querySelector('.client').offsetHeight")
    shown = tab.run(f"['time', 'client', 'latency', 'api'].map((name) => {frame}.querySelector('.' + name).innerText)")
    assert all(shown), shown
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")


def test_records_view_shows_only_matching_records(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, write_capture(tmp_path / "a.pcap", produce("gzip")), "--payloads")
    for text, keys in FILTERED.items():
        if text == "without-schema":
            continue  # a page does not search bytes
        tab.run(f"location.hash = '#/records?filter=' + encodeURIComponent({json.dumps(text)})")
        shown = "[...document.querySelectorAll('table.records tbody tr')].map((row) => row.cells[3].innerText)"
        keys_js = json.dumps(keys)
        tab.until(f"document.getElementById('filter').value === {json.dumps(text)} &&"
                  f" {shown}.map((text) => text.split('\\n')[0]).join() === {keys_js}.join()")  # fmt: skip
        exchanges = "1 exchange" if keys else "0 exchanges"
        tab.until(f"{COUNT} === '{len(keys)} record{'' if len(keys) == 1 else 's'} in {exchanges}'")


def test_records_for_an_outdated_filter_are_not_shown(tab: Tab, tmp_path: Path) -> None:
    """The first filter is answered after the second."""
    show_page(tab, tmp_path, write_capture(tmp_path / "a.pcap", produce()), "--payloads")
    script = join_modules(MODULES[: MODULES.index("records_view.js") + 1])
    shown = tab.run(f"""(async () => {{
      {script}
      const answered = {{}}, row = [0, 0, "c-1", "", "Produce"];
      const cells = (key) => ["0", null, ["text", key, 3, null], ["null", ""], []];
      const field = (key) => ({{ topic: "t", partition: 0, rows: [cells(key)] }});
      const source = {{
        state: {{ frames: 1 }},
        query: ({{ text }}) => new Promise((answer) => {{ answered[text] = () => answer(text); }}),
        records: async (query) => ({{ exchanges: [[row, [field(query)]]], next: null }}),
      }};
      const view = new records_view_js.RecordsView({{ source, setStatus: () => {{}} }});
      document.body.append(view.box);
      const shows = ["old", "new"].map((filter) => view.show({{ filter, only: false }}, {{}}));
      answered.new();
      await shows[1];
      answered.old();
      await shows[0];
      return [...view.body.rows].map((row) => row.cells[3].innerText);
    }})()""")
    assert shown == ["new"]


def test_keys_move_through_the_fields(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    show_frames(tab, 3)
    tab.run(f"{_RESPONSE}.querySelector('.tree').focus()")
    marked = f"{_RESPONSE}.querySelector('.node.marked .name').textContent"
    tab.key("ArrowUp")
    assert tab.run(marked) == "body"
    assert min(int(offset) for offset in tab.run(_MARKED)) == 8
    tab.key("ArrowLeft")
    assert tab.run(f"{_RESPONSE}.querySelectorAll('.node').length") == 4
    tab.key("ArrowRight")
    tab.key("ArrowDown")
    tab.key("ArrowDown")
    assert tab.run(marked) == "brokers"


def test_printing_includes_rows_off_the_screen(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    show_frames(tab)
    rows = "document.querySelectorAll('#rows .row').length"
    assert tab.run(rows) < 100
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert tab.run(rows) == 400
    assert "and 36 more" in tab.run("document.getElementById('rows').textContent")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(rows) < 100


def test_links_open_an_exchange_and_a_field(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _BUG)
    tab.run("location.hash = '#9'")  # the form of older pages
    tab.until("document.querySelector('.head h2')?.textContent.includes('FindCoordinator')")
    tab.run("location.hash = '#/frames?row=3&at=response:body.brokers[0].host'")
    tab.until(f"{_RESPONSE}?.querySelector('.node.marked .name')?.textContent === 'host'")
    assert tab.run("document.querySelector('.head h2').textContent") == "Metadata v2 on #0"


def test_records_of_a_row_in_a_long_list_are_shown(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    show_frames(tab)
    tab.key("G")
    assert tab.run("document.querySelector('#rows .chosen').id") == "row-435"
    assert tab.run("document.querySelectorAll('#rows .row').length") < 100
    type_filter(tab, "api=produce and version=13")
    tab.until(f"{COUNT} !== '436 rows'")
    tab.key("g")  # a click could hit a different row while the list scrolls
    tab.key("Enter")
    tab.until("!document.getElementById('detail').hidden")  # before that, the page shows the closed exchange
    records = "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent.includes('record'))"
    tab.until(records)
    tab.point(records, click=True)
    assert tab.run("document.querySelector('.record pre').textContent").startswith("key-")


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


def test_page_and_server_draw_the_same_charts(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    session = session_of_capture(_JAVA)
    modules = join_modules(MODULES[: MODULES.index("embedded_source.js") + 1])
    for api in ("", "Fetch"):
        expected = json.loads(encode_json(draw_over_time(session, api)))
        del expected["busy"]
        actual = tab.run(f"""(async () => {{ {modules}
          const source = new embedded_source_js.EmbeddedSource(JSON.parse(document.getElementById("data").textContent));
          await source.open();
          filter_text_js.setFields(source.info);
          const {{ busy, ...made }} = await source.overTime({{ text: "", api: "{api}", parts: 48 }});
          return made; }})()""")
        assert actual == expected
    expected = json.loads(encode_json(topics_picture(session, 48)))
    del expected["busy"]
    assert expected["lag"]["names"]
    actual = tab.run(f"""(async () => {{ {modules}
      const source = new embedded_source_js.EmbeddedSource(JSON.parse(document.getElementById("data").textContent));
      await source.open();
      filter_text_js.setFields(source.info);
      const {{ busy, ...made }} = await source.topicsOverTime({{ text: "", parts: 48 }});
      return made; }})()""")
    assert actual == expected


def test_arrow_keys_reach_marks_and_enter_opens_them(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/over-time'")
    tab.until("document.querySelector('.throughput') && document.querySelectorAll('h2').length > 5")
    assert tab.run("[...document.querySelectorAll('.charts svg')].every((picture) =>"
                   " picture.querySelectorAll('a[tabindex=\"0\"]').length === 1)")  # fmt: skip
    tab.run("document.querySelector('.heat .cell').focus()")
    label = "document.activeElement.getAttribute('aria-label')"
    first_label = tab.run(label)
    tab.key("ArrowRight")
    second_label = tab.run(label)
    assert second_label != first_label
    assert tab.run("document.querySelector('.pointed').textContent") == second_label
    tab.key("ArrowLeft")
    tab.key("ArrowDown")
    tab.key("ArrowRight")
    count = tab.run(label).split(" ")[0]
    tab.key("Enter")
    tab.until(f"document.body.dataset.view === 'frames' && {COUNT}.startsWith('{count} of ')")
    tab.run("location.hash = '#/timelines'")
    tab.until("document.querySelector('.timelines svg a')")
    tab.run("document.querySelector('.timelines svg a').focus()")
    tab.key("ArrowDown")
    tab.key("Enter")
    tab.until("document.body.dataset.view === 'frames' && !document.getElementById('detail').hidden")


@pytest.mark.parametrize("width", [375, 1400])
def test_axis_labels_are_not_cut(tab: Tab, tmp_path: Path, width: int) -> None:
    show_page(tab, tmp_path, _JAVA, width=width)
    tab.run("location.hash = '#/over-time'")
    tab.until("document.querySelectorAll('.throughput').length > 2")
    texts = "[...document.querySelectorAll('.charts svg text')]"
    outside = f"{texts}.filter((text) => text.getBBox().x < 0).map((text) => text.textContent)"
    assert tab.run(outside) == []
    longest_label = "document.querySelector('.throughput .tick')"
    assert tab.run(f"{longest_label}.textContent = '834.4 KB/s', {longest_label}.getBBox().x >= 0")
    tab.until("[...document.querySelectorAll('h2')].some((each) => each.textContent.startsWith('Fetched by topic'))")
    sections = "[...document.querySelectorAll('h2')].filter((each) => /^Throughput|by topic/.test(each.textContent))"
    assert tab.run(f"{texts}.filter((text) => text.textContent.endsWith('/s')).length === {sections}.length")
    charts = tab.run("document.querySelector('.charts').textContent")
    assert "Highest of requests that may wait for data or members: " in charts
    assert "Highest: Fetch" not in charts


def test_ladder_leads_to_the_longest_wait(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/ladder'")
    tab.until("document.querySelector('a.longest')")
    name = tab.run("document.querySelector('a.longest').textContent")
    tab.run("document.querySelector('a.longest').click()")
    tab.until("document.querySelector('.ladder .chosen')")
    assert name.split(",")[0] in tab.run("document.querySelector('.ladder .chosen').textContent")


def test_ladder_names_the_longest_wait_with_and_without_long_polls(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/ladder'")
    tab.until("document.querySelectorAll('a.longest').length === 2")
    other, long_poll = tab.run("[...document.querySelectorAll('a.longest')].map((link) => link.textContent)")
    assert long_poll.endswith("which may wait")
    assert not other.endswith("which may wait")


@pytest.mark.parametrize(("width", "roles"), [(1440, ["client", "broker"]), (375, ["broker", "client"])])
def test_brokers_come_first_in_a_ladder_that_does_not_fit(
    tab: Tab, tmp_path: Path, width: int, roles: list[str]
) -> None:
    show_page(tab, tmp_path, _JAVA, width=width)
    tab.run("location.hash = '#/ladder'")
    tab.until("document.querySelectorAll('.ladder .lane-role').length > 2")
    all_roles = tab.run("[...document.querySelectorAll('.ladder .lane-role')].map((label) => label.textContent)")
    assert [*dict.fromkeys(all_roles)] == roles
    assert tab.run("document.querySelector('.ladder .message.request').getBoundingClientRect().left < innerWidth")


def test_another_view_shows_that_it_is_loading(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    show_frames(tab)
    tab.until(f"{COUNT} === '436 rows'")
    for view, count in (("clients", "rows"), ("records", "records in"), ("over-time", "exchanges"), ("wrong", "")):
        tab.run("window.counts = []; new MutationObserver(() => window.counts.push("
                f"{COUNT})).observe(document.getElementById('count'), {{ childList: true }});"
                f"location.hash = '#/{view}'")  # fmt: skip
        tab.until(f"window.counts.length > 1 && {COUNT} !== 'loading …' && {COUNT}.includes('{count}')")
        assert tab.run("window.counts[0]") == "loading …"


def test_whole_table_header_sorts(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/topics'")
    tab.until("document.querySelector('thead th button')")
    widths = "[...document.querySelectorAll('thead th')].map((head) => head.clientWidth - head.firstChild.offsetWidth)"
    assert max(tab.run(widths)) <= 1


def test_columns_without_a_value_are_left_out(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/connections'")
    tab.until("document.body.dataset.view === 'connections' && document.querySelector('thead th button')")
    headings = tab.run("[...document.querySelectorAll('thead th')].map((heading) => heading.innerText)")
    assert "waiting" in headings  # it has zeros
    assert "throttled" not in headings
    assert tab.run("document.querySelectorAll('tbody tr:first-child td').length") == len(headings)


def test_swipe_selects_a_time_range(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA, width=375)
    tab.run("location.hash = '#/over-time?key=Fetch'")
    tab.until("document.querySelector('.heat .cell')")
    tab.until("!document.querySelector('.charts').textContent.includes('Topics are counted')")
    left, top = tab.run("(({ left, top }) => [left, top])(document.querySelector('.heat').getBoundingClientRect())")
    tab.swipe((left + 90, top + 60), (left + 240, top + 70))
    tab.until("document.body.dataset.view === 'frames'")
    text = tab.run("document.getElementById('filter').value")
    assert text.startswith('api="Fetch" and ts>=')
    tab.until(f"/^[1-9]\\d* of 436 rows, times are those of requests$/.test({COUNT})")


@pytest.mark.parametrize(("shift", "start"), [(False, 'api="Fetch" and ts>='), (True, 'api="Fetch" and latency>=')])
def test_drag_selects_a_time_and_with_shift_also_latencies(tab: Tab, tmp_path: Path, shift: bool, start: str) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/over-time?key=Fetch'")
    tab.until("document.querySelector('.heat .cell')")
    tab.until("!document.querySelector('.charts').textContent.includes('Topics are counted')")
    left, top = tab.run("(({ left, top }) => [left, top])(document.querySelector('.heat').getBoundingClientRect())")
    tab.drag((left + 100, top + 10), (left + 900, top + 90), shift=shift)
    tab.until("document.body.dataset.view === 'frames'")
    text = tab.run("document.getElementById('filter').value")
    assert text.startswith(start)
    assert " and ts<" in text
    assert tab.run("document.getElementById('filter').title") == text  # the box is too narrow for it
    tab.point("document.getElementById('clear')", click=True)
    tab.until(f"{COUNT} === '436 rows'")
    assert tab.run("document.getElementById('clear').hidden")


def test_lag_mark_links_to_its_frame(tab: Tab, tmp_path: Path) -> None:
    encoded = bytearray()
    for exchange in (
        fetch_exchange(([3], 7)),
        fetch_exchange(([3], 9), ([4], 0), at=0.1),
        fetch_exchange(([4], 2), at=9),
    ):
        for line in exchange:
            append_line(line, encoded)
    trace = tmp_path / "lag.jsonl"
    trace.write_bytes(encoded)
    show_page(tab, tmp_path, trace)
    tab.run("location.hash = '#/over-time'")
    tab.until("document.querySelectorAll('.lag a').length === 3")
    labels = tab.run(
        "[...document.querySelectorAll('.lag a')].map((mark) => mark.getAttribute('aria-label').slice(0, 9))"
    )
    assert labels == ["7 records", "9 records", "2 records"]
    tab.run("location.hash = document.querySelectorAll('.lag a')[1].getAttribute('href')")
    tab.until(f"document.body.dataset.view === 'frames' && {COUNT}.startsWith('1 of 3 rows')")


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


def test_charts_of_a_single_exchange_have_no_empty_values(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/over-time?filter=' + encodeURIComponent('error=GROUP_ID_NOT_FOUND')")
    tab.until("document.querySelector('.charts .throughput')")
    text = tab.run("document.querySelector('.charts').textContent")
    assert "null" not in text
    assert "Each part of the pictures is 1.00 ms long" in text


def test_timelines_follow_the_filter(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    names = "[...document.querySelectorAll('.timelines h2')].map((each) => each.firstChild.data)"
    tab.run("location.hash = '#/timelines'")
    tab.until("document.querySelectorAll('.timelines h2').length === 5")
    name = tab.run(names)[1]
    tab.run(f"location.hash = '#/timelines?filter=' + encodeURIComponent('group={name}')")
    tab.until("document.querySelectorAll('.timelines h2').length === 1")
    assert tab.run(names) == [name]


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
    for source in (_JAVA, _BUG):
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


def test_charts_link_to_their_frames(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, _JAVA)
    tab.run("location.hash = '#/over-time?key=Fetch'")
    tab.until("document.querySelector('.heat .cell')")
    marked = tab.run("document.querySelector('.heat .cell').getAttribute('aria-label').split(' ')[0]")
    tab.run("location.hash = document.querySelector('.heat .cell').getAttribute('href')")
    tab.until(f"document.getElementById('count').textContent.startsWith('{marked} of ')")
    tab.run("history.back()")
    tab.until(
        "document.body.dataset.view === 'over-time' && document.querySelector('.charts select').value === 'Fetch'"
    )
    tab.run("location.hash = '#/ladder?filter=api%3DJoinGroup+and+error'")
    tab.until("document.querySelectorAll('.ladder .message.request').length === 4")
    ladder_text = tab.run("document.querySelector('.ladder').textContent")
    assert ladder_text.count("MEMBER_ID_REQUIRED") >= 4
    assert "✕" not in ladder_text  # the error is routine
    tab.run("location.hash = document.querySelector('.ladder .message').getAttribute('href')")
    tab.until("document.querySelector('.head h2')?.textContent.includes('JoinGroup')")
    for width in (375, 1440):
        tab.resize(width, 800)
        for view in ("ladder", "over-time", "timelines"):
            tab.run(f"location.hash = '#/{view}'")
            tab.until(f"document.body.dataset.view === '{view}' && document.querySelector('.picture svg a')")
            assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.errors() == []
