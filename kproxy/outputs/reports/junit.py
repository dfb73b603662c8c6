"""The report as JUnit XML: a test suite per input, and a test case per rule, which fails according to `--fail-on`."""

from __future__ import annotations

from xml.etree import ElementTree  # written, not read

from kproxy.outputs import rulebook
from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.reports.text import rows
from kproxy.trace.formatting import safe
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes


def report(causes: Causes, selection: Selection, analysed: AnalysedInputs) -> str:
    """Return the XML. Findings below the threshold of `selection` are in ``system-out``, counts in ``properties``.

    If nothing was analysed, each suite has a test case with an error.
    """
    sorted_causes = causes.sorted_causes()
    names = {entry.code: entry.name for entry in rulebook.entries() if not entry.offline}
    names |= {
        cause.finding.code: cause.finding.name for cause in sorted_causes
    }  # the trace may be from a later version of kproxy
    names_by_code = {code: name for code, name in sorted(names.items()) if selection.shows(code)}
    root = ElementTree.Element("testsuites", name="kproxy")
    for file in causes.files:
        suite = ElementTree.SubElement(root, "testsuite", name=safe(file), tests=str(len(names_by_code)), errors="0")
        counts = analysed.files.get(file)
        properties = ElementTree.SubElement(suite, "properties")
        for name, count in (counts.as_json() if counts else {}).items():
            ElementTree.SubElement(properties, "property", name=f"kproxy.{name}", value=str(count))
        if analysed.has_no_frames:
            suite.set("tests", str(len(names_by_code) + 1))
            suite.set("errors", "1")
            case = ElementTree.SubElement(suite, "testcase", classname="kproxy", name="analysed")
            ElementTree.SubElement(case, "error", type="nothing", message=safe(analysed.sentence))
        failures = 0
        for code, name in names_by_code.items():
            case = ElementTree.SubElement(suite, "testcase", classname=f"kproxy.{code[0]}", name=f"{code} {name}")
            file_causes = [cause for cause in sorted_causes if cause.finding.code == code and cause.files[file]]
            failures += _add_causes(case, file_causes, selection)
        suite.set("failures", str(failures))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_causes(case: ElementTree.Element, causes: list[Cause], selection: Selection) -> bool:
    """Add the causes of a rule to its test case; return whether it fails."""
    failing = [cause for cause in causes if selection.fails(cause.finding.severity)]
    if failing:
        first = failing[0].finding
        failure = ElementTree.SubElement(case, "failure", type=first.severity, message=safe(first.message))
        failure.text = _causes_text(failing)
    if passing := [cause for cause in causes if cause not in failing]:
        ElementTree.SubElement(case, "system-out").text = _causes_text(passing)
    return bool(failing)


def _causes_text(causes: list[Cause]) -> str:
    return "\n\n".join("\n".join("".join(text for text, _ in row).rstrip() for row in rows(cause)) for cause in causes)
