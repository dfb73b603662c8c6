"""The page loads nothing, escapes names from the traffic, and is small."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from kproxy.spark.report.contents import Figures
from kproxy.spark.report.pages import MAX_SIZE, report
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.spark.report.pages import BEGIN_US, figures, listed


def _figures_named(name: str) -> Figures:
    """Return figures in which every name from the traffic is `name`."""
    return figures(
        listed("clients",
               {"client": name, "software_name": name, "software_version": name, "requests": 3, "hosts": 1,
               "connections": 1, "verdict": "refused", "refused_from": "4.0", "reason": name}),
        listed("errors",
               {"by": "topic", "value": name, "error": name, "responses": 1, "share": 0.1, "first_at": BEGIN_US,
               "last_at": BEGIN_US},
               {"by": "api", "value": name, "error": name, "responses": 1, "share": 0.1, "first_at": BEGIN_US,
               "last_at": BEGIN_US}),
        listed("findings",
               {"severity": "error", "code": "L005", "name": name, "client": name, "broker": name, "findings": 2,
               "first_at": BEGIN_US, "message": name, "connection_id": name, "offset": 4}),
        listed("group-stalls",
               {"group_id": name, "stall": "join-waits", "severity": "error", "since": BEGIN_US,
               "until": BEGIN_US + 9_000_000, "duration_us": 9_000_000, "blamed": [name], "sentence": name,
               "look": name}),
        name=name,
    )  # fmt: skip


def test_page_loads_no_external_resource() -> None:
    page = ParsedPage(report(_figures_named("shop"), ["kproxy-trace"]))
    [policy] = [attrs["content"] or "" for tag, attrs in page.elements if "http-equiv" in attrs and tag == "meta"]
    allowed = dict(directive.strip().split(" ", 1) for directive in policy.split(";"))
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    [style], [script] = page.texts["style"], [text for text in page.texts["script"] if not text.startswith("{")]
    for text, source in ((style, allowed["style-src"]), (script, allowed["script-src"])):
        assert source == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    for tag, attrs in page.elements:
        assert not attrs.keys() & {"src", "href", "action", "style", "srcset", "data", "ping"}, tag
        assert not any(name.startswith("on") for name in attrs), tag
    for text in (style, script):
        assert not re.search(r"https?://|@import|url\(|//[a-z]+\.", text)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|\bfetch\(|XMLHttp|WebSocket", script
    )


@pytest.mark.parametrize(
    "name", ["</script><img src=x onerror=alert(1)>", "<!--<script>", "{{data}}", "&lt;&amp;", "\"'`${1}\\"]
)
def test_names_from_the_traffic_are_escaped(name: str) -> None:
    page = ParsedPage(report(_figures_named(name), [name]))
    plain_page = ParsedPage(report(_figures_named("t"), ["t"]))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain_page.elements]
    [clients] = [table for table in page.data["tables"] if table["name"] == "clients"]
    assert clients["rows"][0][0] == name
    assert page.data["sources"] == [name.rpartition("/")[2]]


def test_sources_have_no_control_characters() -> None:
    assert ParsedPage(report(figures(), ["a\x1b[31m\u202e"])).data["sources"] == ["a\\x1b[31m\\u202e"]


def test_page_contains_only_the_pages_of_rules_with_findings() -> None:
    rules = ParsedPage(report(_figures_named("shop"), [])).data["rules"]
    assert list(rules) == ["L005"]
    assert rules["L005"]["name"] == "field-from-newer-version"
    assert "## Why it matters" in rules["L005"]["page"]


def test_page_with_many_clients_and_groups_is_small_enough() -> None:
    clients = [{"client": f"service-{n}-consumer-of-orders", "api": api, "api_version": n % 9, "requests": n,
                "verdict": "refused", "refused_from": "4.0", "reason": "uses it, and Kafka 4.4.0 has it no more " * 2}
               for n in range(200) for api in (None, "Fetch")]  # fmt: skip
    stalls = [{"group_id": f"group-{n}", "stall": "join-waits", "severity": "error", "since": BEGIN_US, "until": None,
               "duration_us": 50_000_000, "blamed": ["a", "b"], "sentence": "they wait for each other " * 12,
               "look": "the poll loop " * 6} for n in range(300)]  # fmt: skip
    page = report(figures(listed("clients", *clients), listed("group-stalls", *stalls)), [])
    assert len(page.encode()) < MAX_SIZE
    tables = {table["name"]: table for table in ParsedPage(page).data["tables"]}
    assert len(tables["clients"]["rows"]) == 400
    assert len({row[0] for row in tables["group-stalls"]["rows"]}) == 300


def test_very_long_names_truncate_the_tables() -> None:
    long_name = "\u4e2d" * 390
    kinds = ("api", "client", "broker", "topic")
    errors = [
        {"by": by, "value": f"{n}{long_name}", "error": long_name, "responses": n, "share": 0.1, "first_at": BEGIN_US,
         "last_at": BEGIN_US}
        for by in kinds for n in range(60)
    ]  # fmt: skip
    findings = [
        {"severity": "error", "code": "L001", "name": long_name, "client": f"{n}{long_name}", "broker": long_name,
         "findings": n, "first_at": BEGIN_US, "message": long_name}
        for n in range(300)
    ]  # fmt: skip
    page = report(figures(listed("errors", *errors), listed("findings", *findings)), [])
    assert len(page.encode()) < MAX_SIZE
    tables = {table["name"]: table for table in ParsedPage(page).data["tables"]}
    assert tables["errors"]["more"]
    shown_kinds = [row[0] for row in tables["errors"]["rows"]]
    assert 0 < len(shown_kinds) < len(errors)
    assert {shown_kinds.count(by) for by in kinds} == {len(shown_kinds) // 4}
    assert 0 < len(tables["findings"]["rows"]) < 300
