"""Numbers and lists in documents agree with the code that they describe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dissectors import schemas
from dissectors.findings import Severity
from dissectors.rules import rules
from dissectors.rules.offline import FLEET_RULES, OFFLINE_RULES, OfflineRule
from kproxy.probe.check import checks
from kproxy.version import __version__
from tests.habits.table import HABITS

ROOT = Path(__file__).parents[1]
#: Pages that describe the current kproxy. Decisions and figures describe kproxy at the time of writing, and name
#: the revision; the other two are generated.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md"))
      if page.name not in ("decisions.md", "speed.md", "museum.md", "rules.md")),
]  # fmt: skip

#: What a number in a page counts -> the pattern of the number, and a function that returns the correct number.
COUNTS = {
    "rules": (r"\b(\d+) rules\b", lambda: len(rules()) + len(OFFLINE_RULES)),
    "checks": (r"\b(\d+) checks\b", lambda: len(checks())),
    "APIs": (r"\b(\d+) APIs, \d+ versions\b", lambda: len(schemas.apis())),
    "versions": (r"\b\d+ APIs, (\d+) versions\b", lambda: sum(len(api.versions) for api in schemas.apis())),
    "habits": (r"\bvariant of (\d+) of these habits\b", lambda: len(HABITS)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_number_in_a_page_agrees_with_the_code(name: str) -> None:
    pattern, count = COUNTS[name]
    numbers = {(page.name, int(number)) for page in PAGES for number in re.findall(pattern, page.read_text())}
    assert numbers, "no page has this number: remove it here"
    assert {number for _, number in numbers} == {count()}, numbers


def _fleet_description(rule: OfflineRule) -> str:
    """Return the first docstring paragraph of the function that checks a rule over a fleet, read without pyspark."""
    name = rule.name.replace("-", "_")
    module = ast.parse((ROOT / f"kproxy/spark/rules/{name}.py").read_text())
    [function] = [
        statement for statement in module.body if isinstance(statement, ast.FunctionDef) and statement.name == name
    ]
    return (ast.get_docstring(function) or "").split("\n\n")[0].replace("\n", " ")


def test_fleet_rules_are_listed() -> None:
    page = (ROOT / "docs/habits.md").read_text().split("## Live and over a fleet")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \[(\w+)\]\(\S+\) \| (yes|no: .{30,}?) \| (.*) \|$", page, re.MULTILINE)
    live = {rule.code for rule in rules()}
    assert [(code, is_live_text == "yes", description) for code, is_live_text, description in rows] == [
        (rule.code, rule.code in live, _fleet_description(rule)) for rule in FLEET_RULES
    ]
    assert [rule.live for rule in FLEET_RULES] == [rule.code in live for rule in FLEET_RULES]


def _codes_after(words: str, page: str) -> list[str]:
    """Return the codes of rules that follow these words of a page, up to the next full stop."""
    [sentence] = re.findall(re.escape(words) + r"([^.]+)\.", page)
    return re.findall(r"\b[A-Z]\d{3}\b", sentence)


def test_habits_page_lists_what_is_not_in_its_tables_and_what_is_not_played() -> None:
    page = (ROOT / "docs/habits.md").read_text()
    rows = re.findall(r"^\| .*", page.split("\n## Limits")[0], re.MULTILINE)
    in_tables = {code for row in rows for code in re.findall(r"\[([A-Z]\d{3})\]\(rules\.md", row)}
    played = {code for habit in HABITS.values() for code in habit.codes}
    assert len(in_tables) > 50
    limited = {rule.code for rule in rules() if rule.limits}
    assert _codes_after("none of the tables above have limits, too:", page) == sorted(limited - in_tables)
    assert _codes_after("It does not play the habits of", page) == sorted(in_tables - played)


def test_habits_page_names_the_rules_that_are_errors() -> None:
    page = (ROOT / "docs/habits.md").read_text()
    in_tables = set(re.findall(r"\[([A-Z]\d{3})\]\(rules\.md", page.split("\n## Limits")[0]))
    errors = [rule.code for rule in rules() if rule.code in in_tables and rule.severity is Severity.ERROR]
    assert _codes_after("of the other rules below,", page) == sorted(errors)


def _tracker_summaries() -> dict[str, str]:
    """Return the first docstring paragraph of each tracker."""
    return {
        module.stem: (ast.get_docstring(ast.parse(module.read_text())) or "").split("\n\n")[0].replace("\n", " ")
        for module in sorted((ROOT / "dissectors/trackers").glob("*.py"))
        if module.stem != "__init__"
    }


@pytest.mark.parametrize("package", ["dissectors", "kproxy"])
def test_each_package_is_in_the_architecture_page_and_is_not_described_as_a_tracker(package: str) -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    section = re.split(r"\n##+ ", page.split(f"\n## `{package}`, from the bottom up\n")[1])[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", section, re.MULTILINE)
    names = {name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)}
    assert names >= {init.parent.name for init in (ROOT / package).glob("*/__init__.py")}
    assert {text for _, text in rows}.isdisjoint(_tracker_summaries().values())


def test_each_tracker_is_in_the_architecture_page() -> None:
    page = (ROOT / "docs/architecture.md").read_text().split("### The trackers\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE) == list(_tracker_summaries().items())


def test_glossary_is_sorted() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)[1:]
    assert terms == sorted(terms, key=str.lower)


def test_version_is_the_same_in_both_files() -> None:
    assert re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE) == [__version__]
