"""The command line itself: help, wrong usage, what it imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy import __version__
from kproxy.cli import COMMANDS
from tests.kproxy.cli.conftest import Run

CAPTURE = Path(__file__).parents[3] / "captures" / "find-coordinator-v0-right.pcap.gz"


@pytest.mark.parametrize("command", [[], ["dissect"], ["explain"], ["rules"], ["analyze"]])
def test_help_has_examples_and_exit_statuses(kproxy: Run, command: list[str]) -> None:
    done = kproxy(*command, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert "exit status:" in done.stdout


def test_the_help_names_every_command(kproxy: Run) -> None:
    done = kproxy("help")
    assert (done.returncode, done.stdout) == (0, kproxy("--help").stdout)
    named = re.findall(r"^    (\S+) ", done.stdout.partition("commands:")[2], re.MULTILINE)
    assert tuple(named) == COMMANDS
    assert "schemas" in named


@pytest.mark.parametrize("command", [["dissect"], ["schemas", "import"], ["help"]])
def test_help_of_a_command_is_what_its_option_shows(kproxy: Run, command: list[str]) -> None:
    done = kproxy("help", *command)
    assert (done.returncode, done.stdout, done.stderr) == (0, kproxy(*command, "--help").stdout, "")
    assert done.stdout.startswith(f"usage: kproxy {' '.join(command)}")


def test_the_version(kproxy: Run, kproxy_process: Run) -> None:
    assert kproxy("-V").stdout == kproxy_process("--version").stdout == f"kproxy {__version__}\n"


def test_without_anything_to_do_it_says_what_to_give(kproxy_process: Run) -> None:
    done = kproxy_process()
    assert done.returncode == 2
    assert done.stderr == "kproxy: nothing to do: pass --listen and --upstream, or a command; see kproxy --help\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--listen", "9092"], "1 --listen and 0 --upstream: each --listen needs one --upstream"),
        (["--listen", "x", "--upstream", "h:1"], "--listen"),
        (["--listen", "0", "--upstream", "h"], "--upstream"),
        (["--listen", "0", "--upstream", "h:1", "-f", "apii=Fetch"], "unknown field 'apii'"),
        (["--listen", "0", "--upstream", "h:1", "--ignore", "L9"], "--ignore L9: unknown rule"),
        (["--bogus"], "unknown option --bogus; see kproxy --help"),
        (["--listen", "1", "-x"], "unknown option -x; see kproxy --help"),
        (["bogus"], "unknown command bogus; see kproxy --help"),
        (["--upsteam", "b:9092", "--listen", "9092"], "unknown option --upsteam; did you mean --upstream?"),
        (["disect", "x"], "unknown command disect; did you mean dissect?"),
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
def test_wrong_usage_is_one_sentence_and_status_2(kproxy: Run, args: list[str], said: str) -> None:
    done = kproxy(*args)
    assert done.returncode == 2
    assert done.stderr.startswith("kproxy: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "heavy"),
    [
        (["--help"], ["shtab", "textual", "scapy", "pyspark", "asyncio", "rich", "msgspec", "dissectors"]),
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
def test_a_command_imports_no_more_than_it_needs(args: list[str], heavy: list[str]) -> None:
    code = (
        "import sys\nfrom kproxy.cli import main\n"
        f"try:\n    main({args!r})\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stderr.split())
    assert "kproxy.cli" in loaded
    assert loaded.isdisjoint(heavy)


def test_the_relay_imports_neither_views_nor_analytics_nor_payloads() -> None:
    code = "import sys, kproxy, kproxy.live.run; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()).isdisjoint({"textual", "scapy", "pyspark", "dissectors.values.text"})


def test_importing_dissectors_reads_no_schema() -> None:
    code = "import dissectors.connections.connection, dissectors.schemas as s; print(s._lines.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0\n"
