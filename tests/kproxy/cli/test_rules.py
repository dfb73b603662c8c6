"""`kproxy rules`: the catalogue and its pages."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.outputs import rulebook
from tests.kproxy.cli.conftest import Run


def test_a_rule_is_a_line(kproxy: Run) -> None:
    done = kproxy("rules")
    assert done.returncode == 0
    rows = [row.split(maxsplit=4) for row in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [entry.code for entry in rulebook.entries()]
    assert rows[0][:3] == ["L001", "trailing-bytes", "error"]
    assert [row[4].startswith("(offline) ") for row in rows] == [entry.offline for entry in rulebook.entries()]


@pytest.mark.parametrize(
    ("which", "chosen"),
    [
        (["L"], lambda entry: entry.code[0] == "L"),
        (["c", "X00"], lambda entry: entry.code.startswith(("C", "X00"))),
        (["info"], lambda entry: entry.severity == "info"),
        (["S", "error", "warning"], lambda entry: entry.code[0] == "S" and entry.severity != "info"),
        (["L001", "C001"], lambda entry: entry.code in ("L001", "C001")),
    ],
)
def test_a_family_or_a_severity_can_be_chosen(kproxy: Run, which: list[str], chosen: object) -> None:
    done = kproxy("rules", "--json", *which)
    expected = [entry.code for entry in rulebook.entries() if chosen(entry)]  # type: ignore[operator]
    assert [finding["code"] for finding in json.loads(done.stdout)] == expected
    assert [row.split()[0] for row in kproxy("rules", *which).stdout.splitlines()] == expected


@pytest.mark.parametrize("which", ["L001", "l001", "trailing-bytes"])
def test_a_page_is_markdown_when_it_is_piped(kproxy: Run, which: str) -> None:
    done = kproxy("rules", which)
    assert done.stdout.startswith("# L001 trailing-bytes\n\nerror")
    for part in ("## Why it matters", "## Example", "## Sources\nhttps://"):
        assert part in done.stdout


def test_a_page_and_the_table_are_rendered_on_a_terminal(tmp_path: Path) -> None:
    for args, expected, absent in ((["L001"], "Why it matters", "## Why"), (["L"], "trailing-bytes", "[bold red]")):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "kproxy", "rules", *args]
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        with subprocess.Popen(command, stdout=theirs, cwd=tmp_path, env=env) as process:
            os.close(theirs)
            shown = b""
            try:
                while more := os.read(ours, 65536):
                    shown += more
            except OSError:  # Linux says EIO at the end of a terminal
                pass
            assert process.wait(30) == 0
        os.close(ours)
        assert expected in shown.decode()
        assert absent not in shown.decode()


def test_json_has_the_page_of_one_rule(kproxy: Run) -> None:
    made = json.loads(kproxy("rules", "--json", "C001").stdout)
    assert made["name"] == "response-without-request"
    assert made["summary"] == "Checks that every response answers a request in flight on its connection."
    assert made["page"].startswith(made["summary"])
    assert made["offline"] is False


def test_a_rule_of_the_offline_analysis_says_so(kproxy: Run) -> None:
    assert "it runs in `kproxy analyze`" in kproxy("rules", "S047").stdout
    assert json.loads(kproxy("rules", "--json", "S047").stdout)["offline"] is True


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (["tralling-bytes"], "tralling-bytes: unknown rule: did you mean L001 trailing-bytes"),
        (["L", "Q7"], "Q7: unknown rule"),
    ],
)
def test_a_rule_that_there_is_not_is_one_sentence_and_status_2(kproxy: Run, which: list[str], said: str) -> None:
    done = kproxy("rules", *which)
    assert done.returncode == 2
    assert done.stderr.startswith(f"kproxy: {said}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_word_finds_the_rules_about_it_the_most_relevant_first(kproxy: Run) -> None:
    found = [row.split()[:2] for row in kproxy("rules", "rebalance").stdout.splitlines()]
    codes = [code for code, _ in found]
    named = [["G015", "rebalances-of-one-member"], ["S012", "rebalance-storm"]]
    assert found[:2] == named  # in their names
    about = [entry for entry in rulebook.entries() if "rebalanc" in (entry.name + entry.page).lower()]
    assert len(about) > 5
    assert set(codes) == {entry.code for entry in about}
    in_summary = {entry.code for entry in about if "rebalanc" in entry.summary.lower()} - {"G015", "S012"}
    assert set(codes[2 : 2 + len(in_summary)]) == in_summary
    for form in ("Rebalances", "rebalancing"):
        assert [row.split()[:2] for row in kproxy("rules", form).stdout.splitlines()] == found


def test_words_codes_and_severities_narrow_each_other(kproxy: Run) -> None:
    both = json.loads(kproxy("rules", "--json", "rebalance", "timeout").stdout)
    assert both
    assert all("rebalanc" in each["page"].lower() and "timeout" in each["page"].lower()
               for code in both for each in [json.loads(kproxy("rules", "--json", code["code"]).stdout)])  # fmt: skip
    errors = json.loads(kproxy("rules", "--json", "rebalance", "S", "error").stdout)
    assert errors
    assert {(error["code"][0], error["severity"]) for error in errors} == {("S", "error")}
    done = kproxy("rules", "rebalance", "P")
    assert (done.returncode, done.stderr) == (2, "kproxy: no rule is about all of rebalance, P; use fewer words\n")
