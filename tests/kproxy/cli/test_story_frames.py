"""`kproxy explain --json` names the edit of each broken frame first, from its bytes alone."""

import json

from dissectors.schemas import api_by_name
from tests.kproxy.captures.departed import DEPARTED, Departed
from tests.kproxy.captures.expectation import LAYOUTS
from tests.kproxy.cli.conftest import Run


def _line(name: str, layout_problems: Departed) -> str:
    found = api_by_name(layout_problems.api)
    assert found is not None
    asked = {"type": "response", "api_key": found.key, "version": layout_problems.version}
    return json.dumps({"id": name, "frame": layout_problems.frame(2).hex()} | asked)


def test_every_frame_has_its_edit_first(kproxy: Run) -> None:
    done = kproxy("explain", "--json", "-", stdin="\n".join(_line(*each) for each in DEPARTED.items()))
    assert done.stderr == ""
    answers = {answer["id"]: answer["findings"] for answer in map(json.loads, done.stdout.splitlines())}
    first = {
        name: (answer[0]["code"], answer[0].get("edit"), tuple(answer[0]["span"]), answer[0]["path"])
        for name, answer in answers.items() if answer
    }  # fmt: skip
    assert first == {name: (layout.code, layout.edit, layout.span, layout.path) for name, layout in LAYOUTS.items()}
    assert answers["find-coordinator-v0-right"] == []


def test_a_frame_on_the_command_line(kproxy: Run) -> None:
    frame = DEPARTED["find-coordinator-v0-with-fields-of-v1"].frame(1).hex(" ")
    done = kproxy("explain", "--json", "--api", "FindCoordinator", "--version", "0", frame)
    first = json.loads(done.stdout)["findings"][0]
    expected = LAYOUTS["find-coordinator-v0-with-fields-of-v1"]
    assert (first["edit"], first["span"]) == (expected.edit, [8, 12])
    assert done.returncode == 1


def test_the_right_frame_on_the_command_line(kproxy: Run) -> None:
    frame = DEPARTED["find-coordinator-v0-right"].frame(1).hex()
    done = kproxy("explain", "--json", "--api", "FindCoordinator", "--version", "0", frame)
    assert json.loads(done.stdout)["findings"] == []
    assert (done.returncode, done.stderr) == (0, "")
