"""The results of `kproxy probe` as one page without a script: failures with their frames, clients, all checks."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final
from xml.etree.ElementTree import Element, SubElement  # written, not read

from kproxy import __version__
from kproxy.html.assemble import static_page
from kproxy.outputs.probe_report import write_evidence
from kproxy.probe.check import CheckResult, Outcome
from kproxy.probe.clients import ClientScore, clients_of
from kproxy.trace.formatting import safe

_NAMES: Final[dict[Outcome, str]] = {"fail": "failed", "pass": "passed", "skip": "skipped"}


def probe_page(broker: str, results: Sequence[CheckResult], clients: Sequence[ClientScore]) -> str:
    """Return the page; texts of the broker are only ever text in it."""
    counts = Counter(each.outcome for each in results)
    body = Element("body")
    header = SubElement(body, "header")
    _add(header, "p", "kproxy probe", id="brand")
    _add(header, "h1", _headline(broker, counts))
    _add(header, "p", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, kproxy {__version__}", **{"class": "about"})
    main = SubElement(body, "main")
    _facts(main, counts)
    if counts["fail"]:
        section = _section(main, "Failed checks", "What the broker does differently from Kafka, and why it matters.")
        for each in results:
            if each.outcome == "fail":
                _failure(section, each)
    _clients(
        _section(main, "Clients", "The checks that each client needs with the versions that it negotiates."), clients
    )
    section = _section(main, "All checks", "By API or subject; a skipped check names its reason.")
    for group, members in groupby(results, lambda each: each.check.id.partition("/")[0]):
        _group(section, group, list(members))
    _add(body, "footer", "The ids of checks are stable. kproxy probe --list --verbose explains them.")
    return static_page(f"kproxy probe: {safe(broker)}", body, __package__)


def _headline(broker: str, counts: Counter[Outcome]) -> str:
    ran = counts["pass"] + counts["fail"]
    return f"{broker} passes {counts['pass']} of {ran} checks that apply"


def _facts(main: Element, counts: Counter[Outcome]) -> None:
    facts = SubElement(main, "dl", id="facts")
    for outcome, name in _NAMES.items():
        pair = SubElement(facts, "div")
        _add(pair, "dt", name.capitalize())
        _add(pair, "dd", str(counts[outcome]))


def _failure(section: Element, result: CheckResult) -> None:
    check = result.check
    box = _add(section, "article", "", **{"class": "finding", "id": f"fail-{check.id}"})
    title = SubElement(box, "h3")
    _add(title, "code", check.id, **{"class": "fail"})
    _add(title, "span", check.title)
    _add(box, "p", result.sentence, **{"class": "message"})
    if check.page:
        _add(box, "p", " ".join(check.page.split()))
    _add(box, "p", f"Source: {', '.join(check.sources)}", **{"class": "about"})
    needed = ", ".join(clients_of(check.id))
    _add(box, "p", f"Clients that need it: {needed or 'none known'}", **{"class": "about"})
    if result.evidence:
        details = SubElement(box, "details")
        _add(details, "summary", "Request and response, byte by byte")
        for each in result.evidence:
            text = io.StringIO()
            write_evidence(each, text)
            _add(details, "pre", text.getvalue())


def _clients(section: Element, clients: Sequence[ClientScore]) -> None:
    rows = _table(section, "Client", "Needs", "Pass", "Fail", "Missing APIs")
    for score in clients:
        row = SubElement(rows, "tr")
        _add(row, "td", score.name)
        _add(row, "td", str(score.needed), **{"class": "number"})
        _add(row, "td", str(score.passed), **{"class": "number"})
        cell = SubElement(row, "td")
        for identity in score.failed:
            _add(cell, "a", identity, href=f"#fail-{identity}").tail = " "
        _add(row, "td", ", ".join(score.missing))


def _group(section: Element, name: str, results: Sequence[CheckResult]) -> None:
    counts = Counter(each.outcome for each in results)
    details = SubElement(section, "details", {"class": "listed"} | ({"open": "open"} if counts["fail"] else {}))
    summary = SubElement(details, "summary")
    _add(summary, "b", name)
    for outcome, text in _NAMES.items():
        if counts[outcome]:
            _add(summary, "span", f"{counts[outcome]} {text}", **{"class": outcome})
    rows = _table(details, "Result", "Check", "What must hold")
    for each in results:
        row = SubElement(rows, "tr")
        _add(row, "td", _NAMES[each.outcome], **{"class": each.outcome})
        _add(SubElement(row, "td"), "code", each.check.id)
        cell = _add(row, "td", each.check.title)
        if each.sentence:
            _add(cell, "div", each.sentence, **{"class": "about"})


def _section(main: Element, title: str, about: str) -> Element:
    section = SubElement(main, "section")
    _add(section, "h2", title)
    _add(section, "p", about, **{"class": "about"})
    return section


def _table(parent: Element, *names: str) -> Element:
    """Add a table with these headings; return its body."""
    table = SubElement(SubElement(parent, "div", {"class": "scroll"}), "table")
    heading = SubElement(SubElement(table, "thead"), "tr")
    for name in names:
        _add(heading, "th", name, scope="col")
    return SubElement(table, "tbody")


def _add(parent: Element, tag: str, text: str, **attributes: str) -> Element:
    made = SubElement(parent, tag, {name: safe(value) for name, value in attributes.items()})
    made.text = "\n".join(map(safe, text.split("\n")))
    return made
