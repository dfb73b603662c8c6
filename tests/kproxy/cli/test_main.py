"""The command line itself: help, invalid usage, and imports."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy import __version__, errors
from kproxy.cli import COMMANDS, relay
from kproxy.cli.command_line import DeclaredOptions
from kproxy.outputs import exit_statuses
from tests.kproxy.cli.conftest import Run

CAPTURE = Path(__file__).parents[3] / "captures" / "find-coordinator-v0-right.pcap.gz"


@pytest.mark.parametrize("command", ["relay", *COMMANDS])
def test_help_lists_the_exit_statuses_of_the_command(kproxy: Run, command: str) -> None:
    result = kproxy("help", command)
    assert (result.returncode, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    assert "exit status: " in text
    for status, meaning in exit_statuses.STATUSES_BY_COMMAND[command].items():
        assert f"{status} {meaning}" in text
    assert "examples:" in result.stdout or command in ("schemas",)


def test_table_of_exit_statuses_is_complete(kproxy: Run) -> None:
    statuses = {errors.CLEAN, errors.FINDINGS, errors.USAGE, errors.UNREACHABLE, errors.UNWATCHED, errors.NOTHING}
    assert {*exit_statuses.MEANINGS} == statuses | {errors.INTERRUPTED}
    assert {*exit_statuses.STATUSES_BY_COMMAND} == {"relay", *COMMANDS}
    assert {status for command in exit_statuses.STATUSES_BY_COMMAND.values() for status in command} == statuses
    help_text = " ".join(kproxy("help", "exit-codes").stdout.split())
    for command in (exit_statuses.MEANINGS, *exit_statuses.STATUSES_BY_COMMAND.values()):
        assert all(f"{status} {meaning}" in help_text for status, meaning in command.items())
    page = (Path(__file__).parents[3] / "docs/exit-codes.md").read_text()
    assert page == exit_statuses.markdown(), "run: python -m kproxy.outputs.exit_statuses docs/exit-codes.md"


def test_help_fits_on_a_screen_and_lists_all_commands(kproxy: Run) -> None:
    result = kproxy("help")
    assert (result.returncode, result.stdout) == (0, kproxy("--help").stdout)
    lines = result.stdout.splitlines()
    assert 24 <= len(lines) <= 40
    assert max(map(len, lines)) <= 80
    listed_commands = re.findall(
        r"^  ([\w-]+)  ", result.stdout.partition("commands:")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert tuple(listed_commands) == COMMANDS
    for line in lines:
        if match := re.match(r"  kproxy help ([a-z-]+)", line):
            assert kproxy("help", match[1]).returncode == 0


def test_relay_help_lists_every_public_option(kproxy: Run) -> None:
    declared = DeclaredOptions()
    relay.declare(declared)
    help_text = kproxy("help", "relay").stdout
    for action in declared.actions:
        assert (action.option_strings[-1] in help_text) == (action.help != argparse.SUPPRESS)
    for part in ("built-in broker", "TLS:", "examples:", "--version"):
        assert part in help_text
    assert "commands:" not in help_text


@pytest.mark.parametrize("command", [["dissect"], ["schemas", "import"], ["help"]])
def test_help_command_equals_the_help_option(kproxy: Run, command: list[str]) -> None:
    result = kproxy("help", *command)
    assert (result.returncode, result.stdout, result.stderr) == (0, kproxy(*command, "--help").stdout, "")
    assert result.stdout.startswith(f"usage: kproxy {' '.join(command)}")


def test_prints_the_version(kproxy: Run, kproxy_process: Run) -> None:
    assert kproxy("-V").stdout == kproxy_process("--version").stdout == f"kproxy {__version__}\n"


def test_kproxy_without_arguments_explains_what_to_pass(kproxy_process: Run) -> None:
    result = kproxy_process()
    assert result.returncode == 2
    assert result.stderr == "kproxy: nothing to do: pass --listen and --upstream, or a command; see kproxy --help\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--listen", "9092"], "1 --listen and 0 --upstream: each --listen needs one --upstream"),
        (["--listen", "x", "--upstream", "h:1"], "--listen"),
        (["--listen", "0", "--upstream", "h"], "--upstream"),
        (["--listen", "0", "--upstream", "h:1", "-f", "apii=Fetch"], "unknown field 'apii'"),
        (["--listen", "0", "--upstream", "h:1", "--ignore", "L9"], "--ignore L9: unknown rule"),
        (["--bogus"], "unknown option --bogus; see kproxy help relay"),
        (["--listen", "1", "-x"], "unknown option -x; see kproxy help relay"),
        (["bogus"], "unknown command bogus; see kproxy --help"),
        (["--upsteam", "b:9092", "--listen", "9092"], "unknown option --upsteam; did you mean --upstream?"),
        (["disect", "x"], "unknown command disect; did you mean dissect?"),
        (["help", "exit-code"], "unknown command exit-code; did you mean exit-codes?"),
        (["help", "disect"], "unknown command disect; did you mean dissect?"),
        (["dissect", "--fitler=api", "x"], "unknown option --fitler; did you mean --filter?"),
        (["dissect", "x", "--jsno"], "unknown option --jsno; did you mean --json?"),
        (["schemas", "improt"], "unknown action improt; did you mean import?"),
        (["schemas", "import", "--chek"], "unknown option --chek; did you mean --check?"),
        (["rules", "C001", "more", "-V"], "unknown option -V; see kproxy rules --help"),
        (["quirks", "a", "more"], "unrecognized arguments: more; see kproxy quirks --help"),
        (["dissect", "/no/x", "--json", "/no/y"], "/no/x: No such file or directory"),
        (["dissect", "--", "--x"], "--x: No such file or directory"),
        (["analyze", "convert", "--job", "latency", "x"], "TRACES --out DIR"),
        (["--listen", "0", "--upstream", "h:1", "--trace", "/dev/null/x"], "--trace /dev/null/x"),
    ],
)
def test_invalid_usage_prints_one_sentence_and_exits_with_2(kproxy: Run, args: list[str], message: str) -> None:
    result = kproxy(*args)
    assert result.returncode == 2
    assert result.stderr.startswith("kproxy: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("args", "unneeded_modules"),
    [
        (["help", "relay"], ["textual", "scapy", "pyspark"]),
        (["help", "exit-codes"], ["textual", "scapy", "pyspark"]),
        (["--help"], ["shtab", "textual", "scapy", "pyspark", "asyncio", "rich", "msgspec", "dissectors.wire"]),
        (["--listen", "0", "--upstream", "bad"], ["textual", "scapy", "pyspark"]),
        (["explain", "00"], ["textual", "scapy", "pyspark", "asyncio", "kproxy.cli.analyze"]),
        (["rules", "--json"], ["textual", "scapy", "pyspark", "asyncio"]),
        (
            ["dissect", "--json", str(CAPTURE)],
            ["textual", "pyspark", "asyncio", "rich", "kproxy.filters", "dissectors.values.text", "kproxy.registry"],
        ),
        (
            ["dissect", "--fields", "ts", str(CAPTURE)],
            ["kproxy.cli.analyze", "dissectors.rules.helpers"],
        ),
        (["analyze", "--help"], ["textual", "scapy", "pyspark", "pyarrow", "asyncio"]),
        (["analyze", "x", "--where", "apii=Fetch"], ["textual", "scapy", "pyspark", "pyarrow", "asyncio"]),
    ],
)
def test_command_imports_only_what_it_needs(args: list[str], unneeded_modules: list[str]) -> None:
    code = (
        "import sys\nfrom kproxy.cli import main\n"
        f"try:\n    main({args!r})\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded_modules = set(result.stderr.split())
    assert "kproxy.cli" in loaded_modules
    assert loaded_modules.isdisjoint(unneeded_modules)


@pytest.mark.slow
def test_relay_imports_neither_views_nor_analytics_nor_payloads_nor_the_broker() -> None:
    code = """
import sys
from unittest import mock
import kproxy.live.run
from kproxy.cli import main
with mock.patch("kproxy.live.run.run", return_value=0):
    main(["--listen", "0", "--upstream", "127.0.0.1:9", "--no-trace"])
print("\\n".join(sys.modules))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(result.stdout.split()).isdisjoint(
        {"textual", "scapy", "pyspark", "dissectors.values.text", "kproxy.broker"}
    )


def test_importing_dissectors_reads_no_schema() -> None:
    code = "import dissectors.connections.connection, dissectors.schemas as s; print(s._lines.cache_info().currsize)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "0\n"
