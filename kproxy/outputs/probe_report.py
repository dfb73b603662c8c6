"""The results of `kproxy probe` as text, JSON lines and JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final, TextIO
from xml.etree import ElementTree  # written, not read

from kproxy.inspection.explain import Explanation
from kproxy.outputs.explained_frame import explanation_json, write_explanation
from kproxy.outputs.text import painter
from kproxy.probe.check import Check, CheckResult
from kproxy.probe.clients import ClientScore, clients_of
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import safe

_STYLES: Final = {"pass": "request", "fail": "error", "skip": "dim"}
_MOST_NAMED: Final = 5  # failed checks per client
_MOST_BYTES: Final = 1024  # of a frame that is shown in full


def listing(selected: Sequence[Check], *, pages: bool) -> Iterator[str]:
    """A line per check: its id and title; with `pages`, also why it matters, its sources, and its clients."""
    width = max((len(each.id) for each in selected), default=0)
    for each in selected:
        yield f"{each.id:{width}}  {each.title}{'  (--write)' if each.writes else ''}\n"
        if pages:
            yield from (f"    {line}".rstrip() + "\n" for line in each.page.splitlines())
            yield f"    Source: {', '.join(each.sources)}\n"
            yield f"    Clients that need it at Kafka 4.3.1: {', '.join(clients_of(each.id)) or 'none known'}\n\n"


class ProbeReport:
    """Prints results as they arrive, and collects them.

    Args:
        file: Standard output.
        as_json: JSON lines instead of text.
        passed: Text also lists passed and skipped checks.
        quiet: Nothing is printed.
    """

    def __init__(self, file: TextIO, *, as_json: bool, passed: bool, quiet: bool) -> None:
        self._file, self._as_json, self._passed, self._quiet = file, as_json, passed, quiet
        self._paint = painter(file)
        self.results: list[CheckResult] = []

    @property
    def counts(self) -> Counter[str]:
        """The number of results per outcome."""
        return Counter(each.outcome for each in self.results)

    def add(self, result: CheckResult) -> None:
        """Print one result, if wanted."""
        self.results.append(result)
        if self._quiet:
            return
        if self._as_json:
            self._line(result_json(result))
        elif self._passed or result.outcome == "fail":
            self._text(result)

    def end(self, clients: Sequence[ClientScore] = ()) -> None:
        """Print the summary: the scores of clients, and the number of results per outcome."""
        counts = self.counts
        if self._quiet:
            return
        if self._as_json:
            summary = {outcome: counts[outcome] for outcome in ("pass", "fail", "skip")}
            self._line({"summary": summary, "clients": [asdict(each) for each in clients]})
            return
        self._file.writelines(f"{line}\n" for line in map(_score, clients))
        self._file.write(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped\n")

    def _line(self, value: dict[str, object]) -> None:
        self._file.write(encode_json(value).decode() + "\n")

    def _text(self, result: CheckResult) -> None:
        check, style = result.check, _STYLES[result.outcome]
        self._file.write(
            self._paint([(result.outcome, style), (f" {check.id}", "name"), (f": {check.title}", "")]) + "\n"
        )
        if result.sentence:
            self._file.write(f"     {safe(result.sentence)}\n")
        for explanation in result.evidence:
            self._file.write("\n")
            write_evidence(explanation, self._file)
        if result.evidence:
            self._file.write("\n")


def _score(score: ClientScore) -> str:
    text = f"{score.name}: needs {score.needed} of these checks, {score.passed} pass"
    if score.failed:
        more = f" and {len(score.failed) - _MOST_NAMED} more" if len(score.failed) > _MOST_NAMED else ""
        text += f"; {', '.join(score.failed[:_MOST_NAMED])}{more} fail"
    return text + (f"; it also uses {', '.join(score.missing)}" if score.missing else "")


def write_evidence(explanation: Explanation, file: TextIO) -> None:
    """Write a frame byte by byte; of a long one, only its size."""
    if len(explanation.frame) <= _MOST_BYTES:
        write_explanation(explanation, [], file)
        return
    message = explanation.message
    kind = "request" if message.is_request else "response"
    size = len(explanation.frame)
    file.write(f"{message.api} v{message.version} {kind}, {size} bytes: too long to show; --json has all of it\n")


def result_json(result: CheckResult) -> dict[str, object]:
    """A result as an object: id, title, outcome, sentence, duration_ms, and the frames of a failure."""
    made: dict[str, object] = {
        "id": result.check.id, "title": result.check.title, "outcome": result.outcome, "sentence": result.sentence,
        "duration_ms": round(result.duration_ms, 3),
    }  # fmt: skip
    if result.evidence:
        made["evidence"] = [{"hex": each.frame.hex(), **explanation_json(each, [])} for each in result.evidence]
    return made


def junit(suite: str, results: Iterable[CheckResult], *, strict: bool) -> str:
    """JUnit XML: a test case per check. With `strict`, skipped checks are failures."""
    cases = list(results)
    failed = sum(each.outcome == "fail" or (strict and each.outcome == "skip") for each in cases)
    skipped = sum(each.outcome == "skip" for each in cases) * (not strict)
    root = ElementTree.Element("testsuites", name="kproxy probe")
    top = ElementTree.SubElement(
        root, "testsuite", name=safe(suite), tests=str(len(cases)), failures=str(failed), skipped=str(skipped)
    )
    for each in cases:
        group, _, name = each.check.id.partition("/")
        case = ElementTree.SubElement(
            top, "testcase", classname=f"kproxy.probe.{group}", name=name, time=f"{each.duration_ms / 1000:.6f}"
        )
        if each.outcome == "fail" or (strict and each.outcome == "skip"):
            failure = ElementTree.SubElement(case, "failure", message=safe(each.sentence))
            failure.text = each.check.title
        elif each.outcome == "skip":
            ElementTree.SubElement(case, "skipped", message=safe(each.sentence))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
