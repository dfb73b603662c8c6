"""The results of `kproxy probe` as one page without a script: failures with their frames, clients, all checks."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final
from xml.etree.ElementTree import Element, SubElement  # written, not read

from kproxy.html.assemble import static_page
from kproxy.html.elements import add, add_section, add_table
from kproxy.outputs.probe_report import write_evidence
from kproxy.probe.check import CheckResult, Outcome
from kproxy.probe.clients import ClientScore, clients_of
from kproxy.trace.formatting import safe
from kproxy.version import __version__

_OUTCOME_NAMES: Final[dict[Outcome, str]] = {"fail": "failed", "pass": "passed", "skip": "skipped"}


def probe_page(broker: str, results: Sequence[CheckResult], clients: Sequence[ClientScore]) -> str:
    """Return the page; text from the broker is always escaped, never interpreted as markup."""
    counts = Counter(check_result.outcome for check_result in results)
    body = Element("body")
    header = SubElement(body, "header")
    add(header, "p", "kproxy probe", id="brand")
    add(header, "h1", _headline(broker, counts))
    add(header, "p", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, kproxy {__version__}", **{"class": "about"})
    main = SubElement(body, "main")
    _add_facts(main, counts)
    if counts["fail"]:
        section = add_section(main, "Failed checks", "What the broker does differently from Kafka, and why it matters.")
        for check_result in results:
            if check_result.outcome == "fail":
                _add_failure(section, check_result)
    _add_clients(
        add_section(main, "Clients", "The checks that each client needs with the versions that it negotiates."), clients
    )
    section = add_section(main, "All checks", "By API or subject; a skipped check names its reason.")
    for group, group_results in groupby(results, lambda check_result: check_result.check.id.partition("/")[0]):
        _add_group(section, group, list(group_results))
    add(body, "footer", "The ids of checks are stable. kproxy probe --list --verbose explains them.")
    return static_page(f"kproxy probe: {safe(broker)}", body)


def _headline(broker: str, counts: Counter[Outcome]) -> str:
    applicable = counts["pass"] + counts["fail"]
    return f"{broker} passes {counts['pass']} of {applicable} checks that apply"


def _add_facts(main: Element, counts: Counter[Outcome]) -> None:
    facts = SubElement(main, "dl", id="facts")
    for outcome, name in _OUTCOME_NAMES.items():
        pair = SubElement(facts, "div")
        add(pair, "dt", name.capitalize())
        add(pair, "dd", str(counts[outcome]))


def _add_failure(section: Element, result: CheckResult) -> None:
    check = result.check
    article = add(section, "article", "", **{"class": "finding", "id": f"fail-{check.id}"})
    title = SubElement(article, "h3")
    add(title, "code", check.id, **{"class": "fail"})
    add(title, "span", check.title)
    add(article, "p", result.sentence, **{"class": "message"})
    if check.page:
        add(article, "p", " ".join(check.page.split()))
    add(article, "p", f"Source: {', '.join(check.sources)}", **{"class": "about"})
    client_names = ", ".join(clients_of(check.id))
    add(article, "p", f"Clients that need it: {client_names or 'none known'}", **{"class": "about"})
    if result.evidence:
        details = SubElement(article, "details")
        add(details, "summary", "Request and response, byte by byte")
        for frame in result.evidence:
            text = io.StringIO()
            write_evidence(frame, text)
            add(details, "pre", text.getvalue())


def _add_clients(section: Element, clients: Sequence[ClientScore]) -> None:
    rows = add_table(section, "Client", "Needs", "Pass", "Fail", "Missing APIs")
    for score in clients:
        row = SubElement(rows, "tr")
        add(row, "td", score.name)
        add(row, "td", str(score.needed), **{"class": "number"})
        add(row, "td", str(score.passed), **{"class": "number"})
        cell = SubElement(row, "td")
        for check_id in score.failed:
            add(cell, "a", check_id, href=f"#fail-{check_id}").tail = " "
        add(row, "td", ", ".join(score.missing))


def _add_group(section: Element, name: str, results: Sequence[CheckResult]) -> None:
    counts = Counter(check_result.outcome for check_result in results)
    details = SubElement(section, "details", {"class": "listed"} | ({"open": "open"} if counts["fail"] else {}))
    summary = SubElement(details, "summary")
    add(summary, "b", name)
    for outcome, text in _OUTCOME_NAMES.items():
        if counts[outcome]:
            add(summary, "span", f"{counts[outcome]} {text}", **{"class": outcome})
    rows = add_table(details, "Result", "Check", "What must hold")
    for check_result in results:
        row = SubElement(rows, "tr")
        add(row, "td", _OUTCOME_NAMES[check_result.outcome], **{"class": check_result.outcome})
        add(SubElement(row, "td"), "code", check_result.check.id)
        cell = add(row, "td", check_result.check.title)
        if check_result.sentence:
            add(cell, "div", check_result.sentence, **{"class": "about"})
