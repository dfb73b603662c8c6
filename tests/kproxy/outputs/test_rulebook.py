"""The rulebook is complete, and docs/rules.md is up to date."""

import re
from pathlib import Path

from dissectors.rules import rules
from dissectors.rules.offline import OFFLINE_RULES
from kproxy.outputs import rulebook

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"


def test_codes_and_names_of_rules_are_unique() -> None:
    entries = rulebook.entries()
    assert len({entry.code for entry in entries}) == len({entry.name for entry in entries}) == len(entries)
    assert len(entries) == len(rules()) + len(OFFLINE_RULES)


def test_every_rule_is_summarised_in_one_sentence() -> None:
    for entry in rulebook.entries():
        assert re.fullmatch(r"(Checks|Reports),? [^\n]+\.", entry.summary), entry.code
        assert entry.code[0] in rulebook.FAMILIES


def test_rules_page_is_up_to_date() -> None:
    assert PAGE.read_text() == rulebook.markdown(), "run: python -m kproxy.outputs.rulebook docs/rules.md"


def test_page_has_a_row_and_a_section_per_rule() -> None:
    page = rulebook.markdown()
    for entry in rulebook.entries():
        assert page.count(f"\n### {entry.code} {entry.name}\n") == 1
        assert page.count(f"\n| [{entry.code}](#{entry.code.lower()}-{entry.name}) | ") == 1


def test_rules_are_found_by_code_and_name() -> None:
    assert rulebook.find("l001") == rulebook.find("Trailing-Bytes") == rulebook.entries()[0]
    assert rulebook.find("L00") is None
    assert rulebook.code_prefix("l00") == "L00"
    assert rulebook.code_prefix("trailing-bytes") == "L001"
    assert rulebook.code_prefix("Z") is None
