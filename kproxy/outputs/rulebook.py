"""The rulebook: every rule with its page, for `kproxy rules`, reports, and docs/rules.md.

``python -m kproxy.outputs.rulebook docs/rules.md`` writes that page.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dissectors.limits import Limit
from dissectors.rules import Rule, rules
from dissectors.rules.offline import OFFLINE_RULES

FAMILIES = {
    "L": "layout",
    "V": "version negotiation",
    "C": "correlation and connections",
    "R": "records and batches",
    "P": "payloads: keys and values",
    "S": "semantics over time",
    "G": "groups that make no progress",
    "T": "transactions",
    "H": "habits of clients",
    "Q": "share groups (queues)",
    "E": "errors that brokers return",
    "X": "security and other protocols",
    "M": "limits and framing",
    "K": "limits of the inspection itself",
}

_PREFACE = """\
# Rules

Every finding carries the code of its rule. `kproxy rules CODE` prints a rule's page, and `kproxy rules WORD` finds the
rules about a subject. `--select` and `--ignore` filter findings by code, code prefix or rule name. *Offline* rules need
days of traffic or many connections: `kproxy analyze` runs them over traces.

This page is generated from the rules: `python -m kproxy.outputs.rulebook docs/rules.md`.
"""
_OFFLINE = (
    "This rule needs days of traffic or many connections at once: it runs in `kproxy analyze`, not on live traffic."
)


@dataclass(frozen=True, slots=True)
class RulebookEntry:
    """A rule for users. `page` is Markdown; `offline` rules are checked only by `kproxy analyze`."""

    code: str
    name: str
    severity: str
    blame: str | None
    summary: str
    page: str
    since: str | None = None
    offline: bool = False
    limits: tuple[Limit, ...] = ()

    @property
    def source(self) -> str | None:
        """The first link on its page."""
        match = re.search(r"https://\S+", self.page)
        return match[0] if match else None


@functools.cache
def entries() -> tuple[RulebookEntry, ...]:
    """Return all rules, including those of the offline analysis, ordered by family and code."""
    all_entries = [
        RulebookEntry(
            rule.code,
            rule.name,
            rule.severity.value,
            rule.blame,
            _first_sentence(rule.page),
            _page(rule),
            rule.since,
            limits=rule.limits,
        )
        for rule in rules()
    ] + [
        RulebookEntry(
            rule.code,
            rule.name,
            rule.severity.value,
            rule.blame,
            rule.summary,
            "\n\n".join(filter(None, (rule.summary, _OFFLINE, rule.details))),
            offline=True,
        )
        for rule in OFFLINE_RULES
    ]
    order = list(FAMILIES)
    return tuple(sorted(all_entries, key=lambda entry: (order.index(entry.code[0]), entry.code)))


def _page(rule: Rule) -> str:
    """Return a rule's page. When it is silent and its limits come before the sources."""
    page, heading, sources = inspect.cleandoc(rule.page).rpartition("## Sources")
    if rule.complete_for:
        page += (
            f"Silent if frames of the client were not read in the {rule.complete_for} s before: the capture has gaps, "
            "the inspector was behind, or only a sample of the connections is inspected.\n\n"
        )
    if limits := rule.limits:
        rows = (
            f"| `{limit.name}` | {limit.text(limit.default)} | {limit.unit} | {limit.meaning} |\n" for limit in limits
        )
        example = f"{rule.code}:{limits[0].name}={limits[0].text(limits[0].default)}"
        page += (
            f"## Limits\n| limit | default | unit | reported if |\n|---|---|---|---|\n{''.join(rows)}\n"
            f"Set them with `--rule '{example}'`, or in the configuration file under `[rules.{rule.code}]`.\n\n"
        )
    return f"{page}{heading}{sources}"


def _first_sentence(page: str) -> str:
    paragraph = " ".join(inspect.cleandoc(page).split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z])", paragraph)[0]


def find(text: str) -> RulebookEntry | None:
    """Return the rule with this code or name, ignoring case; None if there is none."""
    return next((entry for entry in entries() if text.upper() == entry.code or text.lower() == entry.name), None)


def code_prefix(text: str) -> str | None:
    """Return the code prefix for a code, a code prefix or a rule name; None if no rule matches."""
    if (entry := find(text)) is not None:
        return entry.code
    return text.upper() if any(entry.code.startswith(text.upper()) for entry in entries()) else None


def search(words: Iterable[str]) -> list[RulebookEntry]:
    """Return the rules whose name or page has all these words, in any form (rebalance, rebalances, rebalancing).

    Rules with the words in their name come first, then those with the words in their summary, then the others by the
    number of occurrences on their page.
    """
    stems = [_stem(word) for word in words]
    matches = [entry for entry in entries() if all(stem in f"{entry.name} {entry.page}".lower() for stem in stems)]

    def rank(entry: RulebookEntry) -> tuple[int, ...]:
        name, summary, page = ([text.lower().count(stem) for stem in stems]
                               for text in (entry.name, entry.summary, entry.page))  # fmt: skip
        return -sum(map(bool, name)), -sum(map(bool, summary)), -sum(page)

    return sorted(matches, key=rank)


def _stem(word: str) -> str:
    """Return a word without the ending of a plural, participle or gerund, if at least four letters remain."""
    return re.sub(r"(?<=....)(e[sd]?|ing|s)$", "", word.lower())


def unknown_rule_message(text: str) -> str:
    """Return a sentence about an unknown code or name, with similar ones."""
    names = {name: entry for entry in entries() for name in (entry.code, entry.name)}
    similar = difflib.get_close_matches(text.upper(), names, 3) + difflib.get_close_matches(text.lower(), names, 3)
    suggestions = dict.fromkeys(f"{names[name].code} {names[name].name}" for name in similar)
    if suggestions:
        return f"unknown rule: did you mean {_join_with_or(suggestions)}?"
    family = f" {text[0].upper()}" if text[:1].upper() in FAMILIES else ""
    return f"unknown rule; kproxy rules{family} lists them"


def _join_with_or(names: Iterable[str]) -> str:
    *first, last = list(names)[:3]
    return f"{', '.join(first)} or {last}" if first else last


def markdown() -> str:
    """Return the content of docs/rules.md: a table per family, then a section per rule."""
    parts = [_PREFACE]
    for letter, family in FAMILIES.items():
        rulebook_entries = [entry for entry in entries() if entry.code.startswith(letter)]
        rows = "".join(
            f"| [{entry.code}](#{_anchor(entry)}) | {entry.name} | {entry.severity} | {entry.blame or ''} "
            f"| {_cell(entry)} |\n"
            for entry in rulebook_entries
        )
        header = "| code | name | severity | blames | summary |\n|---|---|---|---|---|\n"
        parts.append(f"## {letter}: {family}\n\n{header}{rows}")
    parts += [_section(entry) for entry in entries()]
    return "\n".join(parts)


def _anchor(entry: RulebookEntry) -> str:
    return f"{entry.code}-{entry.name}".lower()


def _cell(entry: RulebookEntry) -> str:
    return entry.summary.replace("|", r"\|") + (" *Offline.*" if entry.offline else "")


def _section(entry: RulebookEntry) -> str:
    blame = f", blames the {entry.blame}" if entry.blame else ""
    page = re.sub("^## ", "#### ", entry.page, flags=re.MULTILINE)
    page = re.sub(r"^(https://\S+)$", r"- <\1>", page, flags=re.MULTILINE)
    return f"### {entry.code} {entry.name}\n\n{entry.severity}{blame}\n\n{page}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())
