"""Decisions have ids, the changelog is short, and unreleased changes are kept as fragments."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
DECISIONS = (ROOT / "docs" / "decisions.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_each_decision_has_its_own_id() -> None:
    paragraphs = [text for text in DECISIONS.split("\n\n")[2:] if text.startswith("**")]
    ids = [re.match(r"\*\*(D\d{3}) \S", text) for text in paragraphs]
    assert len(paragraphs) > 200
    assert [text[:60] for text, identity in zip(paragraphs, ids, strict=True) if identity is None] == []
    assert [name for name, count in Counter(match[1] for match in ids if match).items() if count > 1] == []
    assert not re.search(r"[^\n]\n\*\*", DECISIONS), "a decision begins with a blank line before it"


def test_superseding_decisions_exist() -> None:
    existing = set(re.findall(r"^\*\*(D\d{3}) ", DECISIONS, re.MULTILINE))
    superseding = set(re.findall(r"superseded by (D\d{3})", DECISIONS)) - {"D123"}
    assert superseding <= existing


def test_release_has_at_most_sixty_lines() -> None:
    _, *releases = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)
    assert [release.partition("\n")[0] for release in releases][-1] == "0.1.0"
    assert all(len(release.splitlines()) <= 60 for release in releases)


def test_fragments_are_short_and_of_a_known_type() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    types = {fragment_type["directory"] for fragment_type in config["type"]}
    readme = (ROOT / config["directory"] / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)) == types
    for path in (ROOT / config["directory"]).iterdir():
        if path.name != "README.md":
            assert re.fullmatch(rf"[\w-]+\.({'|'.join(types)})\.md", path.name), path.name
            assert 0 < len(path.read_text().split()) <= 80, path.name
