"""Write the museum's captures and page, and update kproxy's messages in the cases: ``python -m tests.museum``."""

import dataclasses
import gzip
import json

from kproxy.trace.lines import Detail
from tests.kproxy.capture_results import findings_of
from tests.kproxy.captures.recorder import record_story
from tests.museum.cases import CASES, ROOT, Case
from tests.museum.page import page


def _update_message(case: Case) -> Case:
    """Update the file of a case with the message that kproxy prints now, and return the updated case."""
    reported = findings_of(case.capture, detail=Detail.FULL, ports=frozenset(case.ports))
    message = next(
        (finding.message for _, finding in reported if finding.code == case.finding.code), case.finding.message
    )
    if message == case.finding.message:
        return case
    lines = case.file.read_text().splitlines(keepends=True)
    index = next(number for number, line in enumerate(lines) if line.startswith("message = "))
    lines[index] = f"message = {json.dumps(message, ensure_ascii=False)}\n"
    case.file.write_text("".join(lines))
    return dataclasses.replace(case, finding=dataclasses.replace(case.finding, message=message))


for case in CASES.values():
    if case.story is not None:
        case.capture.write_bytes(gzip.compress(record_story(case.story), mtime=0))
    CASES[case.name] = _update_message(case)
(ROOT / "docs" / "museum.md").write_text(page())
