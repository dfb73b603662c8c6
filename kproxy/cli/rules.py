"""`kproxy rules`: lists the rules, or prints the page of one rule."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from kproxy.errors import CLEAN, UserError

if TYPE_CHECKING:
    from kproxy.outputs.rulebook import RulebookEntry

HELP = "list or search the diagnostic rules, or explain one"

_SEVERITIES = ("info", "warning", "error")
_EXAMPLES = """
examples:
  kproxy rules                   # all rules
  kproxy rules L                 # codes that begin with L
  kproxy rules S error           # codes that begin with S, severity error only
  kproxy rules rebalance         # rules with this word in their name or page, the most relevant first
  kproxy rules C001              # one rule: why it matters, usual cause, example, similar findings, sources
  kproxy rules --json

Rules marked "offline" run in kproxy analyze only, not on live traffic.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "which",
        nargs="*",
        metavar="WHICH",
        help="rule code, rule name, code prefix (L, S0), severity, or words to search for",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON: an array, or an object with the full page for one rule"
    )
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from kproxy.outputs import rulebook

    rule = rulebook.find(args.which[0]) if len(args.which) == 1 else None
    if rule is not None:
        _write_json(_as_json(rule) | {"page": rule.page}) if args.json else _write_page(rule)
        return CLEAN
    entries = _select_rules(args.which)
    _write_json([_as_json(entry) for entry in entries]) if args.json else _write_table(entries)
    return CLEAN


def _select_rules(words: list[str]) -> list[RulebookEntry]:
    from kproxy.outputs import rulebook

    severities = {word.lower() for word in words if word.lower() in _SEVERITIES}
    prefixes, search_words = [], []
    for word in words:
        if (prefix := rulebook.code_prefix(word)) is not None:
            prefixes.append(prefix)
        elif word.lower() not in _SEVERITIES:
            if not rulebook.search([word]):
                raise UserError(f"{word}: {rulebook.unknown_rule_message(word)}")
            search_words.append(word)
    rules = [
        entry
        for entry in (rulebook.search(search_words) if search_words else rulebook.entries())
        if entry.code.startswith(tuple(prefixes) or "") and (not severities or entry.severity in severities)
    ]
    if search_words and not rules:
        raise UserError(f"no rule is about all of {', '.join(words)}; use fewer words")
    return rules


def _as_json(entry: RulebookEntry) -> dict[str, Any]:
    return {
        "code": entry.code,
        "name": entry.name,
        "severity": entry.severity,
        "blame": entry.blame,
        "summary": entry.summary,
        "since": entry.since,
        "offline": entry.offline,
        "limits": [
            {"name": limit.name, "default": limit.default, "unit": limit.unit, "meaning": limit.meaning}
            for limit in entry.limits
        ],
    }


def _write_json(value: object) -> None:
    from kproxy.trace.encoding import encode_json

    sys.stdout.buffer.write(encode_json(value) + b"\n")


def _write_table(entries: list[RulebookEntry]) -> None:
    if not sys.stdout.isatty():  # one rule per line, for grep
        name_width = max((len(entry.name) for entry in entries), default=0)
        for entry in entries:
            fields = f"{entry.code}  {entry.name:<{name_width}}  {entry.severity:<7}  {entry.blame or '-':<7}"
            print(f"{fields}  {_summary(entry)}")  # noqa: T201
        return
    from rich.table import Table

    from kproxy.outputs.console import Console

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("code", "name", "severity", "blame"):
        table.add_column(heading, no_wrap=True)
    table.add_column("summary")
    styles = {"error": "bold red", "warning": "yellow", "info": "blue"}
    for entry in entries:
        severity = f"[{styles[entry.severity]}]{entry.severity}[/]"
        table.add_row(entry.code, entry.name, severity, entry.blame or "", _summary(entry).replace("[", r"\["))
    Console().print(table)


def _summary(entry: RulebookEntry) -> str:
    return f"{'(offline) ' if entry.offline else ''}{entry.summary}"


def _write_page(entry: RulebookEntry) -> None:
    blame = f", blames the {entry.blame}" if entry.blame else ""
    since = f", since kproxy {entry.since}" if entry.since else ""
    page = f"# {entry.code} {entry.name}\n\n{entry.severity}{blame}{since}\n\n{entry.page}\n"
    if not sys.stdout.isatty():
        sys.stdout.write(page)
        return
    from rich.markdown import Markdown

    from kproxy.outputs.console import Console

    # Otherwise, consecutive links would form one paragraph.
    lines = (f"- {line}" if line.startswith("https://") else line for line in page.splitlines())
    Console().print(Markdown("\n".join(lines)))
