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


def test_prints_one_line_per_rule(kproxy: Run) -> None:
    result = kproxy("rules")
    assert result.returncode == 0
    rows = [row.split(maxsplit=4) for row in result.stdout.splitlines()]
    assert [row[0] for row in rows] == [entry.code for entry in rulebook.entries()]
    assert rows[0][:3] == ["L001", "trailing-bytes", "error"]
    assert [row[4].startswith("(offline) ") for row in rows] == [entry.offline for entry in rulebook.entries()]


@pytest.mark.parametrize(
    ("words", "is_selected"),
    [
        (["L"], lambda entry: entry.code[0] == "L"),
        (["c", "X00"], lambda entry: entry.code.startswith(("C", "X00"))),
        (["info"], lambda entry: entry.severity == "info"),
        (["S", "error", "warning"], lambda entry: entry.code[0] == "S" and entry.severity != "info"),
        (["L001", "C001"], lambda entry: entry.code in ("L001", "C001")),
    ],
)
def test_selects_rules_by_family_or_severity(kproxy: Run, words: list[str], is_selected: object) -> None:
    result = kproxy("rules", "--json", *words)
    expected = [entry.code for entry in rulebook.entries() if is_selected(entry)]  # type: ignore[operator]
    assert [finding["code"] for finding in json.loads(result.stdout)] == expected
    assert [row.split()[0] for row in kproxy("rules", *words).stdout.splitlines()] == expected


@pytest.mark.parametrize("word", ["L001", "l001", "trailing-bytes"])
def test_page_is_markdown_when_piped(kproxy: Run, word: str) -> None:
    result = kproxy("rules", word)
    assert result.stdout.startswith("# L001 trailing-bytes\n\nerror")
    for part in ("## Why it matters", "## Example", "## Sources\nhttps://"):
        assert part in result.stdout


@pytest.mark.slow
def test_page_and_table_are_rendered_on_a_terminal(tmp_path: Path) -> None:
    for args, expected, unexpected in ((["L001"], "Why it matters", "## Why"), (["L"], "trailing-bytes", "[bold red]")):
        terminal, child_terminal = pty.openpty()
        command = [sys.executable, "-m", "kproxy", "rules", *args]
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        with subprocess.Popen(command, stdout=child_terminal, cwd=tmp_path, env=env) as process:
            os.close(child_terminal)
            output = b""
            try:
                while chunk := os.read(terminal, 65536):
                    output += chunk
            except OSError:  # Linux raises EIO at the end of a terminal
                pass
            assert process.wait(30) == 0
        os.close(terminal)
        assert expected in output.decode()
        assert unexpected not in output.decode()


def test_json_contains_the_page_of_a_single_rule(kproxy: Run) -> None:
    parsed = json.loads(kproxy("rules", "--json", "C001").stdout)
    assert parsed["name"] == "response-without-request"
    assert parsed["summary"] == "Checks that every response answers a request in flight on its connection."
    assert parsed["page"].startswith(parsed["summary"])
    assert parsed["offline"] is False


def test_marks_rules_of_the_offline_analysis(kproxy: Run) -> None:
    assert "it runs in `kproxy analyze`" in kproxy("rules", "S047").stdout
    assert json.loads(kproxy("rules", "--json", "S047").stdout)["offline"] is True


def test_page_of_an_offline_rule_names_the_live_rule(kproxy: Run) -> None:
    page = json.loads(kproxy("rules", "--json", "S047").stdout)["page"]
    assert "Live, E002 reports the refused producer with NOT_ENOUGH_REPLICAS." in page
    assert "## Why it matters" in page
    assert "## Usual cause" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tralling-bytes"], "tralling-bytes: unknown rule: did you mean L001 trailing-bytes"),
        (["L", "Q7"], "Q7: unknown rule"),
    ],
)
def test_unknown_rule_prints_one_sentence_and_exits_with_2(kproxy: Run, words: list[str], message: str) -> None:
    result = kproxy("rules", *words)
    assert result.returncode == 2
    assert result.stderr.startswith(f"kproxy: {message}")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_word_finds_matching_rules_in_order_of_relevance(kproxy: Run) -> None:
    rows = [row.split()[:2] for row in kproxy("rules", "rebalance").stdout.splitlines()]
    codes = [code for code, _ in rows]
    expected_first = [["G015", "rebalances-of-one-member"], ["S012", "rebalance-storm"]]
    assert rows[:2] == expected_first  # the word is in their names
    matching = [entry for entry in rulebook.entries() if "rebalanc" in (entry.name + entry.page).lower()]
    assert len(matching) > 5
    assert set(codes) == {entry.code for entry in matching}
    in_summary = {entry.code for entry in matching if "rebalanc" in entry.summary.lower()} - {"G015", "S012"}
    assert set(codes[2 : 2 + len(in_summary)]) == in_summary
    for word_form in ("Rebalances", "rebalancing"):
        assert [row.split()[:2] for row in kproxy("rules", word_form).stdout.splitlines()] == rows


def test_words_codes_and_severities_are_combined(kproxy: Run) -> None:
    matching = json.loads(kproxy("rules", "--json", "rebalance", "timeout").stdout)
    assert matching
    for rule in matching:
        page = json.loads(kproxy("rules", "--json", rule["code"]).stdout)["page"].lower()
        assert "rebalanc" in page
        assert "timeout" in page
    errors = json.loads(kproxy("rules", "--json", "rebalance", "S", "error").stdout)
    assert errors
    assert {(error["code"][0], error["severity"]) for error in errors} == {("S", "error")}
    result = kproxy("rules", "rebalance", "P")
    assert (result.returncode, result.stderr) == (2, "kproxy: no rule is about all of rebalance, P; use fewer words\n")
