"""Charts, ladders and timelines: each mark leads to its frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kproxy.html.assemble import MODULES, join_modules
from kproxy.trace.encoding import append_line, encode_json
from tests.kproxy.browse.pictures.test_over_time import draw_over_time
from tests.kproxy.browse.pictures.test_topics_over_time import draw_topics_over_time as topics_picture
from tests.kproxy.browse.pictures.test_topics_over_time import fetch_exchange
from tests.kproxy.browse.sessions import session_of_capture
from tests.peers.browser import BasicTab as Tab
from tests.peers.page.pages import COUNT, JAVA, show_page

pytestmark = pytest.mark.peers


def test_page_and_server_draw_the_same_charts(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    session = session_of_capture(JAVA)
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
    show_page(tab, tmp_path, JAVA)
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
    show_page(tab, tmp_path, JAVA, width=width)
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
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/ladder'")
    tab.until("document.querySelector('a.longest')")
    name = tab.run("document.querySelector('a.longest').textContent")
    tab.run("document.querySelector('a.longest').click()")
    tab.until("document.querySelector('.ladder .chosen')")
    assert name.split(",")[0] in tab.run("document.querySelector('.ladder .chosen').textContent")


def test_ladder_names_the_longest_wait_with_and_without_long_polls(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/ladder'")
    tab.until("document.querySelectorAll('a.longest').length === 2")
    other, long_poll = tab.run("[...document.querySelectorAll('a.longest')].map((link) => link.textContent)")
    assert long_poll.endswith("which may wait")
    assert not other.endswith("which may wait")


@pytest.mark.parametrize(("width", "roles"), [(1440, ["client", "broker"]), (375, ["broker", "client"])])
def test_brokers_come_first_in_a_ladder_that_does_not_fit(
    tab: Tab, tmp_path: Path, width: int, roles: list[str]
) -> None:
    show_page(tab, tmp_path, JAVA, width=width)
    tab.run("location.hash = '#/ladder'")
    tab.until("document.querySelectorAll('.ladder .lane-role').length > 2")
    all_roles = tab.run("[...document.querySelectorAll('.ladder .lane-role')].map((label) => label.textContent)")
    assert [*dict.fromkeys(all_roles)] == roles
    assert tab.run("document.querySelector('.ladder .message.request').getBoundingClientRect().left < innerWidth")


def test_swipe_selects_a_time_range(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA, width=375)
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
    show_page(tab, tmp_path, JAVA)
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


def test_charts_of_a_single_exchange_have_no_empty_values(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    tab.run("location.hash = '#/over-time?filter=' + encodeURIComponent('error=GROUP_ID_NOT_FOUND')")
    tab.until("document.querySelector('.charts .throughput')")
    text = tab.run("document.querySelector('.charts').textContent")
    assert "null" not in text
    assert "Each part of the pictures is 1.00 ms long" in text


def test_timelines_follow_the_filter(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
    names = "[...document.querySelectorAll('.timelines h2')].map((each) => each.firstChild.data)"
    tab.run("location.hash = '#/timelines'")
    tab.until("document.querySelectorAll('.timelines h2').length === 5")
    name = tab.run(names)[1]
    tab.run(f"location.hash = '#/timelines?filter=' + encodeURIComponent('group={name}')")
    tab.until("document.querySelectorAll('.timelines h2').length === 1")
    assert tab.run(names) == [name]


def test_charts_link_to_their_frames(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, JAVA)
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
