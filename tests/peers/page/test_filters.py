"""The filter of the page matches what the command line matches, completes, and explains what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kproxy.capture_results import lines_of
from tests.kproxy.html.filters import lines, match_results, match_results_script, sample_texts
from tests.kproxy.html.pages import page_of
from tests.peers.browser import BasicTab as Tab
from tests.peers.page.pages import BUG, CLEAN, COUNT, JAVA, WRONG, row, show_frames, show_page, type_filter

pytestmark = pytest.mark.peers


def test_filters_match_the_same_lines_as_on_the_command_line(tab: Tab) -> None:
    texts, sample = sample_texts(), lines()
    page_results = tab.run(match_results_script(texts, sample))
    for text, expected, actual in zip(texts, match_results(texts, sample), page_results, strict=True):
        assert actual == expected, text


def test_filter_treats_request_and_response_as_one(tab: Tab, tmp_path: Path) -> None:
    text = "acks=-1 and error=0"  # one is in the request, the other in the response
    expected_page, _ = page_of(lines_of(JAVA), chosen=text)
    show_page(tab, tmp_path, JAVA)
    show_frames(tab)
    type_filter(tab, text)
    tab.until(f"{COUNT} === '{len(expected_page.unpacked('rows'))} of 436 rows'")
    type_filter(tab, "api=Metadat")
    assert tab.until(WRONG) == "unknown api 'Metadat' at column 5: did you mean 'Metadata'?"
    assert tab.run(COUNT) == f"{len(expected_page.unpacked('rows'))} of 436 rows"  # the count for the previous filter
    type_filter(tab, "")
    tab.until(f"{COUNT} === '436 rows'")
    assert tab.run(WRONG) == ""


def test_page_explains_a_filter_without_matches(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
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


def test_filter_completes_and_searches_plain_text(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, BUG)
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


def test_filter_without_causes_can_be_cleared(tab: Tab, tmp_path: Path) -> None:
    show_page(tab, tmp_path, CLEAN)
    tab.run("location.hash = '#/wrong?filter=api%3DProduce'")
    tab.until("document.querySelector('.causes h2')")
    texts = tab.run("[...document.querySelector('.causes').childNodes].map((node) => node.textContent)")
    assert texts == ["What is wrong", "No finding in what matches api=Produce; clear the filter"]
    tab.point("document.querySelector('.causes .clear')", click=True)
    tab.until("document.querySelector('.causes .none').textContent === 'Nothing wrong was found.'")
    assert tab.run("document.getElementById('filter').value") == ""
