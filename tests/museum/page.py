"""Generate docs/museum.md, which shows every case with its source, its symptom and kproxy's diagnosis."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kproxy.outputs.rulebook import FAMILIES
from tests.museum.cases import CASES, Case

PREFACE = """\
# A museum of real bugs

Bugs that Kafka clients, brokers and proxies shipped, as they look on the wire. Each case has its source, a quotation
of what users saw, and the diagnosis that kproxy prints. `captures/museum/` has a small capture of each:

    kproxy dissect --findings captures/museum/{example}.pcap.gz

Most captures are written from the source's description, with its bytes where it has them; the others are recorded
from the affected release, by `tests/museum/record`. With the quirk of a case, the built-in broker reproduces it:
`kproxy --listen 9092 --upstream --quirk QUIRK`.

This page and the captures are generated from `tests/museum/cases/`: `python -m tests.museum`. The {count} cases run in
`tests/museum/test_museum.py`.
"""


def page() -> str:
    """Return the page in Markdown."""
    parts = [PREFACE.format(count=len(CASES), example=next(iter(CASES)))]
    for letter, family in FAMILIES.items():
        cases = [case for case in CASES.values() if case.finding.code.startswith(letter)]
        if cases:
            parts.append(f"## {family[0].upper()}{family[1:]}\n")
            parts += [
                "\n".join(_entry(case)) for case in sorted(cases, key=lambda case: (case.finding.code, case.name))
            ]
    return "\n".join(parts)


def _entry(case: Case) -> Iterator[str]:
    yield f"### {case.project}: {case.title}\n"
    yield f"[{_short_link(case.source)}]({case.source}) · {case.affected}\n"
    yield textwrap.fill(" ".join(case.bug.split()), 140, break_long_words=False, break_on_hyphens=False) + "\n"
    yield textwrap.indent(case.symptom.strip("\n"), "> ", lambda line: True).replace("> \n", ">\n") + "\n"
    also_text = "".join(f", and `{code}`" for code in case.finding.also)
    yield f"kproxy reports `{case.finding.code}`{also_text}:\n\n    {case.finding.message}\n"
    if case.note:
        yield textwrap.fill(" ".join(case.note.split()), 140, break_long_words=False, break_on_hyphens=False) + "\n"
    capture_text = f"Capture: `{case.name}.pcap.gz`"
    if case.recorded:
        capture_text += f", {case.recorded}"
    if case.ports:
        capture_text += " (" + " ".join(f"`--port {port}`" for port in case.ports) + ")"
    yield capture_text + (f". Quirk: `{case.quirk}`\n" if case.quirk else "\n")


def _short_link(link: str) -> str:
    """Return ``owner/repository#1`` for an issue or pull request, the path of a file, or the URL without its scheme."""
    match link.removeprefix("https://").split("/"):
        case ["github.com", owner, repository, "issues" | "pull", number]:
            return f"{owner}/{repository}#{number}"
        case ["github.com", owner, repository, "blob", _, *path]:
            return f"{owner}/{repository}: {'/'.join(path)}"
    return link.removeprefix("https://")
