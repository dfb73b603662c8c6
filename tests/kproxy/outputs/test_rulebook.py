"""The rulebook is whole, and the README has it."""

import re
from pathlib import Path

import pytest

from dissectors.offline import OFFLINE_RULES
from dissectors.rules import rules
from kproxy.outputs import rulebook

README = Path(__file__).parents[3] / "README.md"


def test_a_code_and_a_name_belong_to_one_rule() -> None:
    entries = rulebook.entries()
    assert len({entry.code for entry in entries}) == len({entry.name for entry in entries}) == len(entries)
    assert len(entries) == len(rules()) + len(OFFLINE_RULES)


def test_every_rule_has_one_sentence() -> None:
    for entry in rulebook.entries():
        assert re.fullmatch(r"(Checks that|Says) [^\n]+\.", entry.summary), entry.code
        assert entry.code[0] in rulebook.FAMILIES


def test_the_readme_has_the_table_of_the_rules() -> None:
    readme = README.read_text()
    assert readme == rulebook.with_table(readme), "run: python -m kproxy.outputs.rulebook README.md"


def test_the_table_stands_between_its_marks() -> None:
    made = rulebook.with_table("before <!-- rules -->what was there<!-- end of rules --> after")
    assert made.startswith("before <!-- rules -->\n\n<details><summary>L: layout (")
    assert made.endswith("<!-- end of rules --> after")
    assert "what was there" not in made
    assert "| L001 | trailing-bytes | error |" in made
    with pytest.raises(ValueError, match="<!-- rules -->"):
        rulebook.with_table("nothing here")


def test_rules_are_found_by_code_and_name() -> None:
    assert rulebook.find("l001") == rulebook.find("Trailing-Bytes") == rulebook.entries()[0]
    assert rulebook.find("L00") is None
    assert rulebook.prefix("l00") == "L00"
    assert rulebook.prefix("trailing-bytes") == "L001"
    assert rulebook.prefix("Z") is None
