"""Records of frames are shown, sorted and filtered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kproxy.html.assemble import MODULES, join_modules
from tests.kproxy.cli.test_payloads import produce, write_capture
from tests.kproxy.html.test_matching_records import FILTERED
from tests.peers.browser import BasicTab as Tab
from tests.peers.page.pages import COUNT, JAVA, row, show_frames, show_page, type_filter

pytestmark = pytest.mark.peers


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


def test_records_view_links_to_frames(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/records?filter=api%3DProduce'")
    tab.until("document.querySelectorAll('table.records tbody tr').length > 20")
    assert "key-" in tab.run("document.querySelector('table.records tbody').textContent")
    tab.run("document.querySelector('table.records tbody a').click()")
    tab.until("document.querySelector('.head h2')?.textContent.includes('Produce')")


def test_records_are_sorted_by_a_column(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
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
    show_page(tab, tmp_path, JAVA)
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


def test_records_of_a_row_in_a_long_list_are_shown(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
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
