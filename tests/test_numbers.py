"""Numbers and lists in documents that follow from the code are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dissectors import schemas
from dissectors.rules import rules
from dissectors.rules.offline import FLEET_RULES, OFFLINE_RULES
from kproxy.probe.check import checks
from kproxy.version import __version__
from tests.habits.table import HABITS

ROOT = Path(__file__).parents[1]
#: Pages about what kproxy is now. Decisions and figures are about what it was when they were written, and name the
#: revision; the other two are generated.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md"))
      if page.name not in ("decisions.md", "speed.md", "museum.md", "rules.md")),
]  # fmt: skip

#: What a number in a page counts -> the pattern of the number, and what it is.
COUNTS = {
    "rules": (r"\b(\d+) rules\b", lambda: len(rules()) + len(OFFLINE_RULES)),
    "checks": (r"\b(\d+) checks\b", lambda: len(checks())),
    "APIs": (r"\b(\d+) APIs, \d+ versions\b", lambda: len(schemas.apis())),
    "versions": (r"\b\d+ APIs, (\d+) versions\b", lambda: sum(len(api.versions) for api in schemas.apis())),
    "habits": (r"\bvariant of (\d+) of these habits\b", lambda: len(HABITS)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_number_in_a_page_is_that_of_the_code(name: str) -> None:
    pattern, count = COUNTS[name]
    numbers = {(page.name, int(number)) for page in PAGES for number in re.findall(pattern, page.read_text())}
    assert numbers, "no page has this number: remove it here"
    assert {number for _, number in numbers} == {count()}, numbers


def test_the_rules_of_a_fleet_are_listed() -> None:
    [listed] = re.findall(
        r"`kproxy analyze` finds ([A-Z0-9, and]+) for a whole fleet", (ROOT / "docs/habits.md").read_text()
    )
    assert re.findall(r"[A-Z]\d{3}", listed) == [rule.code for rule in FLEET_RULES if rule.live]


def test_both_places_have_the_same_version() -> None:
    assert re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE) == [__version__]
