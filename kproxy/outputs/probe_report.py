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
_MAX_NAMED: Final = 5  # failed checks per client
_MAX_BYTES: Final = 1024  # of a frame that is shown in full


def listing(selected: Sequence[Check], *, pages: bool) -> Iterator[str]:
    """Yield a line per check: its id and title; with `pages`, also why it matters, its sources, and its clients."""
    width = max((len(check.id) for check in selected), default=0)
    for check in selected:
        yield f"{check.id:{width}}  {check.title}{'  (--write)' if check.writes else ''}\n"
        if pages:
            yield from (f"    {line}".rstrip() + "\n" for line in check.page.splitlines())
            yield f"    Source: {', '.join(check.sources)}\n"
            yield f"    Clients that need it at Kafka 4.3.1: {', '.join(clients_of(check.id)) or 'none known'}\n\n"


class ProbeReport:
    """Prints results as they arrive, and collects them.

    Args:
        file: Standard output.
        as_json: Whether to print JSON lines instead of text.
        passed: Whether text also lists passed and skipped checks.
        quiet: Whether to print nothing.
    """

    def __init__(self, file: TextIO, *, as_json: bool, passed: bool, quiet: bool) -> None:
        self._file, self._as_json, self._passed, self._quiet = file, as_json, passed, quiet
        self._paint = painter(file)
        self.results: list[CheckResult] = []

    @property
    def counts(self) -> Counter[str]:
        """The number of results per outcome."""
        return Counter(check_result.outcome for check_result in self.results)

    def add(self, result: CheckResult) -> None:
        """Collect one result, and print it if the options ask for it."""
        self.results.append(result)
        if self._quiet:
            return
        if self._as_json:
            self._write_json(result_json(result))
        elif self._passed or result.outcome == "fail":
            self._write_text(result)

    def end(self, clients: Sequence[ClientScore] = ()) -> None:
        """Print the summary: the scores of clients, and the number of results per outcome."""
        counts = self.counts
        if self._quiet:
            return
        if self._as_json:
            summary = {outcome: counts[outcome] for outcome in ("pass", "fail", "skip")}
            self._write_json({"summary": summary, "clients": [asdict(client) for client in clients]})
            return
        self._file.writelines(f"{line}\n" for line in map(_score_text, clients))
        self._file.write(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped\n")

    def _write_json(self, value: dict[str, object]) -> None:
        self._file.write(encode_json(value).decode() + "\n")

    def _write_text(self, result: CheckResult) -> None:
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


def _score_text(score: ClientScore) -> str:
    text = f"{score.name}: needs {score.needed} of these checks, {score.passed} pass"
    if score.failed:
        more_text = f" and {len(score.failed) - _MAX_NAMED} more" if len(score.failed) > _MAX_NAMED else ""
        text += f"; {', '.join(score.failed[:_MAX_NAMED])}{more_text} fail"
    return text + (f"; it also uses {', '.join(score.missing)}" if score.missing else "")


def write_evidence(explanation: Explanation, file: TextIO) -> None:
    """Write a frame byte by byte, or only its size if it is long."""
    if len(explanation.frame) <= _MAX_BYTES:
        write_explanation(explanation, [], file)
        return
    message = explanation.message
    kind = "request" if message.is_request else "response"
    size = len(explanation.frame)
    file.write(f"{message.api} v{message.version} {kind}, {size} bytes: too long to show; --json has all of it\n")


def result_json(result: CheckResult) -> dict[str, object]:
    """Return a result as an object: id, title, outcome, sentence, duration_ms, and the frames of a failure."""
    entry: dict[str, object] = {
        "id": result.check.id, "title": result.check.title, "outcome": result.outcome, "sentence": result.sentence,
        "duration_ms": round(result.duration_ms, 3),
    }  # fmt: skip
    if result.evidence:
        entry["evidence"] = [{"hex": frame.frame.hex(), **explanation_json(frame, [])} for frame in result.evidence]
    return entry


def junit(suite: str, results: Iterable[CheckResult], *, strict: bool) -> str:
    """Return JUnit XML with a test case per check. With `strict`, skipped checks are failures."""
    cases = list(results)
    failed = sum(result.outcome == "fail" or (strict and result.outcome == "skip") for result in cases)
    skipped = sum(result.outcome == "skip" for result in cases) * (not strict)
    root = ElementTree.Element("testsuites", name="kproxy probe")
    suite_element = ElementTree.SubElement(
        root, "testsuite", name=safe(suite), tests=str(len(cases)), failures=str(failed), skipped=str(skipped)
    )
    for result in cases:
        group, _, name = result.check.id.partition("/")
        case = ElementTree.SubElement(
            suite_element,
            "testcase",
            classname=f"kproxy.probe.{group}",
            name=name,
            time=f"{result.duration_ms / 1000:.6f}",
        )
        if result.outcome == "fail" or (strict and result.outcome == "skip"):
            failure = ElementTree.SubElement(case, "failure", message=safe(result.sentence))
            failure.text = result.check.title
        elif result.outcome == "skip":
            ElementTree.SubElement(case, "skipped", message=safe(result.sentence))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
