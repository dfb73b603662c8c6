"""Each command behind a number or mark in a report finds frames in the report's traces."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.filters import parse
from kproxy.trace.encoding import as_mapping, parse_line
from tests.peers.browser import Tab

pytest.importorskip("pyspark")
pytestmark = pytest.mark.peers

_ROOT = Path(__file__).parents[2]
_CAPTURES = (
    _ROOT / "tests" / "data" / "pcap" / "java-4.3.1.pcap.gz",
    _ROOT / "captures" / "join-group-never-synced.pcap.gz",
)
#: A script that clicks everything that shows a command, and returns pairs of the clicked text and the command.
_COLLECT_COMMANDS = """(() => {
  const found = [], seen = document.getElementById("frames");
  for (const one of document.querySelectorAll("button.opens, svg rect")) {
    one.dispatchEvent(new Event("click"));
    if (seen.open) { found.push([one.textContent, document.getElementById("command").textContent]); seen.close(); }
  }
  return found;
})()"""


def _run_kproxy(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kproxy", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload, no-any-return]


def test_commands_of_the_report_find_existing_frames(tab: Tab, tmp_path: Path) -> None:
    traces = tmp_path / "the traces"
    traces.mkdir()
    for capture in _CAPTURES:
        dissected = _run_kproxy("dissect", "--json", "--detail", "full", "--fail-on", "never", capture)
        (traces / f"{capture.name.partition('.')[0]}.jsonl").write_text(dissected.stdout)
    analysis = _run_kproxy("analyze", "--html", tmp_path / "report.html", "the traces", cwd=tmp_path)
    assert analysis.returncode == 0, analysis.stderr
    lines = [as_mapping(parse_line(line)) for file in traces.iterdir() for line in file.read_text().splitlines()]
    tab.navigate((tmp_path / "report.html").as_uri())
    tab.until("document.documentElement?.dataset.ready")
    commands = {command: text for text, command in tab.run(_COLLECT_COMMANDS)}
    assert len(commands) > 100
    assert any("stall" in command for command in commands)
    for command, text in commands.items():
        program, view, *filter_options, paths = shlex.split(command)
        assert (program, view, paths) == ("kproxy", "tui", "the traces")
        option, filter_text = filter_options or ("-f", "")
        assert option == "-f"
        count = sum(map(parse(filter_text).matches, lines)) if filter_options else len(lines)
        assert count >= (int(text.replace(",", "")) if text.replace(",", "").isdecimal() else 1), (text, command)
    facts = tab.run(
        "Object.fromEntries([...document.querySelectorAll('#facts div')].map((fact) => fact.innerText.split(/\\n+/)))"
    )
    assert set(facts) == {
        "requests",
        "bytes",
        "error responses",
        "clients",
        "brokers",
        "connections",
        "sources",
        "lines",
    }
    assert not tab.run(
        "[...document.querySelectorAll('#facts dd')].filter((fact) => !fact.querySelector('.opens')).length"
    )
    [errors_command] = [command for command, text in commands.items() if "error in (" in command]
    assert commands[errors_command] == facts["error responses"]
    assert sum(map(parse(shlex.split(errors_command)[3]).matches, lines)) == int(facts["error responses"])
    assert len(lines) == int(facts["lines"])
    [_, _, *arguments] = shlex.split(next(command for command in commands if "error=" in command))
    printed = _run_kproxy("dissect", "--json", "--fail-on", "never", *arguments, cwd=tmp_path).stdout
    assert [json.loads(line)["kind"] for line in printed.splitlines()]
