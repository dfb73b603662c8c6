"""`kproxy explain --json` names the edit of each broken frame first, from its bytes alone."""

import json

from dissectors.schemas import api_by_name
from tests.kproxy.captures.deviating_responses import DEVIATING_RESPONSES, DeviatingResponse
from tests.kproxy.captures.expectation import LAYOUTS
from tests.kproxy.cli.conftest import Run


def _input_line(name: str, layout_problems: DeviatingResponse) -> str:
    api_info = api_by_name(layout_problems.api)
    assert api_info is not None
    identity = {"type": "response", "api_key": api_info.key, "version": layout_problems.version}
    return json.dumps({"id": name, "frame": layout_problems.frame(2).hex()} | identity)


def test_first_finding_of_every_frame_is_its_edit(kproxy: Run) -> None:
    result = kproxy(
        "explain", "--json", "-", stdin="\n".join(_input_line(*item) for item in DEVIATING_RESPONSES.items())
    )
    assert result.stderr == ""
    findings_by_id = {findings["id"]: findings["findings"] for findings in map(json.loads, result.stdout.splitlines())}
    first_findings = {
        name: (findings[0]["code"], findings[0].get("edit"), tuple(findings[0]["span"]), findings[0]["path"])
        for name, findings in findings_by_id.items() if findings
    }  # fmt: skip
    assert first_findings == {
        name: (layout.code, layout.edit, layout.span, layout.path) for name, layout in LAYOUTS.items()
    }
    assert findings_by_id["find-coordinator-v0-right"] == []


def test_explains_a_frame_given_on_the_command_line(kproxy: Run) -> None:
    frame = DEVIATING_RESPONSES["find-coordinator-v0-with-fields-of-v1"].frame(1).hex(" ")
    result = kproxy("explain", "--json", "--api", "FindCoordinator", "--version", "0", frame)
    first = json.loads(result.stdout)["findings"][0]
    expected = LAYOUTS["find-coordinator-v0-with-fields-of-v1"]
    assert (first["edit"], first["span"]) == (expected.edit, [8, 12])
    assert result.returncode == 1


def test_correct_frame_has_no_findings(kproxy: Run) -> None:
    frame = DEVIATING_RESPONSES["find-coordinator-v0-right"].frame(1).hex()
    result = kproxy("explain", "--json", "--api", "FindCoordinator", "--version", "0", frame)
    assert json.loads(result.stdout)["findings"] == []
    assert (result.returncode, result.stderr) == (0, "")
