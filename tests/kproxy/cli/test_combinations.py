"""Options that would have no effect are rejected; the command line overrides the configuration file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from kproxy import cli
from kproxy.cli import listeners
from kproxy.errors import UserError
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.cli.conftest import Run

CAPTURE = str(CAPTURES / "metadata-v1-throttle-first.pcap.gz")
RELAY = "--listen 0 --upstream k:9092 "
BUILT_IN = "--listen 0 --upstream "


@pytest.mark.parametrize(
    ("command_line", "sentence"),
    [
        (RELAY + "--trace d --no-trace", "--trace needs a trace: leave out --no-trace"),
        (RELAY + "--trace kproxy-trace --no-trace", "--trace needs a trace: leave out --no-trace"),
        (RELAY + "--strict-trace --no-trace", "--strict-trace needs a trace: leave out --no-trace"),
        (RELAY + "--compress --no-trace", "--compress needs a trace: leave out --no-trace"),
        (RELAY + "--no-trace --no-control --detail full", "--detail is for the trace and viewers: "),
        (RELAY + "--json -v", "-v is for text: leave it out with --json"),
        (RELAY + "--json -q", "-q is for text: leave it out with --json"),
        (BUILT_IN + "--advertise", "--advertise is for other brokers: the built-in broker advertises"),
        (BUILT_IN + "--no-check", "--no-check is about upstreams, and with the built-in broker there is none: "),
        (BUILT_IN + "--super-user User:a", "--super-user needs --acls: "),
        ("--listen 0 --replay x --cap-versions", "--replay takes the place of the brokers: leave out --cap-versions"),
        ("--listen 0 --replay x --no-check", "--no-check is about upstreams, and with --replay there is none: "),
        ("--listen 9092 --upstream a:1 --listen localhost:9092 --upstream b:1", "localhost:9092 is given twice: "),
        (
            "--listen A://9092 --listen B://9092 --upstream "
            "--config listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
            "localhost:9092 is given twice: ",
        ),
        (f"--listen 9092 --listen 127.0.0.1:9092 --replay {CAPTURE}", "127.0.0.1:9092 is given twice: "),
        ("--config-file a --config-file b", "--config-file is given twice: pass one file"),
        ("--json rules", "--json before rules would be ignored: pass the options of a command after its name"),
        (f"-q dissect {CAPTURE}", "-q before dissect would be ignored: "),
        (f"dissect --json -v {CAPTURE}", "-v is for text: leave it out with --json"),
        (f"dissect --json -q {CAPTURE}", "-q is for text: leave it out with --json"),
        (f"dissect --fields ts -v {CAPTURE}", "-v is for text: leave it out with --fields"),
        (f"dissect --findings -q {CAPTURE}", "-q is for text: leave it out with --findings"),
        (f"dissect --html -v {CAPTURE}", "-v is for text: leave it out with --html"),
        (f"dissect --html --detail raw {CAPTURE}", "--detail has no effect with --html"),
        (f"dissect --findings --detail full {CAPTURE}", "--detail has no effect with --findings"),
        (f"dissect --detail full {CAPTURE}", "--detail needs -v, --json or --fields: "),
        ("dissect --port 9092 t.jsonl", "--port is for captures, and t.jsonl is a trace: leave it out"),
        ("dissect --keylog k t.jsonl", "--keylog is for captures, and t.jsonl is a trace: leave it out"),
        ("explain --json --request 00 - < {}", "--request is for one frame: put it into each line"),
        ("diff --port 1 k:1 k:2", "--port is for captures: A and B are brokers"),
        (f"diff --timeout 3 {CAPTURE} {CAPTURE}", "--timeout is for live brokers: A and B are files"),
        (f"diff --tls {CAPTURE} {CAPTURE}", "--tls is for live brokers: A and B are files"),
        ("send --encode --json Metadata", "--json has no effect with --encode, which sends nothing"),
        ("send --encode --tls Metadata", "--tls has no effect with --encode, which sends nothing"),
        ("send --raw 00 --edit moved:topics:last k:1", "--edit has no effect with --raw"),
        ("send --encode --raw 00 --client-id a", "--client-id has no effect with --raw"),
        ("send --encode --raw 00 Metadata", "--raw sends bytes as they are: pass no API or fields with it"),
        ("probe --list k:1", "k:1: --list asks no broker: leave out the address"),
        ("probe --list --write", "--write has no effect with --list, which runs no check"),
        ("probe --list --timeout 3", "--timeout has no effect with --list, which runs no check"),
        ("probe k:1 --prefix a", "--prefix needs --write: other checks create nothing"),
        ("probe k:1 --json --verbose", "-v is for text: leave it out with --json"),
        ("analyze convert x --out y --rows 3", "--rows is for tables as text: leave it out"),
        ("analyze x --format json --rows 3", "--rows is for tables as text: leave it out"),
        ("analyze convert --repair --out y --port 3", "--port is for captures: --repair reads none"),
    ],
)  # fmt: skip
def test_rejects_an_option_that_would_have_no_effect(
    kproxy: Run, tmp_path: Path, command_line: str, sentence: str
) -> None:
    (tmp_path / "t.jsonl").write_text(kproxy("dissect", "--json", CAPTURE).stdout)
    words, _, stdin = command_line.partition(" < ")
    result = kproxy(*words.split(), stdin=stdin)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("kproxy: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_rejects_a_relay_option_before_a_command(kproxy: Run, command: str) -> None:
    required_arguments = {
        "completion": "bash", "ca": "export", "schemas": "import", "dissect": "a", "explain": "00", "diff": "a b",
        "export-test": "a b", "replay": "a b", "analyze": "a",
    }  # fmt: skip
    result = kproxy("--no-trace", command, *required_arguments.get(command, "").split())
    assert result.returncode == 2
    expected = f"kproxy: --no-trace before {command} would be ignored: pass the options of a command after its name\n"
    assert result.stderr == expected


@pytest.mark.parametrize(
    ("config", "words", "expected"),
    [
        ('trace = "d"\nstrict-trace = true\ncompress = true', "--no-trace", {"no_trace": True, "trace": None}),
        ("no-trace = true", "--trace d", {"no_trace": False, "trace": "d"}),
        ('control = "/c"', "--no-control", {"control": None, "no_control": True}),
        ("no-control = true", "--control /c", {"control": "/c", "no_control": False}),
        ("quiet = true", "--json", {"quiet": False, "json": True}),
        ("json = true", "-v", {"verbose": True, "json": False}),
        ('upstream = "k:1"\nadvertise = true', "--replay x", {"upstream": [], "advertise": None}),
    ],
)
def test_command_line_overrides_conflicting_options_of_the_file(
    tmp_path: Path, config: str, words: str, expected: dict[str, object]
) -> None:
    path = tmp_path / "kproxy.toml"
    path.write_text(config)
    args = cli._parse(["--config-file", str(path), *words.split()])
    assert {name: getattr(args, name) for name in expected} == expected


def test_rejects_a_configuration_file_with_conflicting_options(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text('listen = "0"\nupstream = "k:1"\ntrace = "d"\nno-trace = true')
    result = kproxy("--config-file", "k.toml")
    assert (result.returncode, result.stderr) == (2, "kproxy: --trace needs a trace: leave out --no-trace\n")


def test_reload_rejects_a_duplicate_listener(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kproxy.toml"

    def write_config(second_port: int) -> argparse.Namespace:
        options = {"listen": ["32240", str(second_port)], "upstream": ["a:1", "b:1"]}
        path.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in options.items()))
        return cli._parse(["--config-file", str(path)])

    args = write_config(32241)
    reloaded = listeners.reload(args, None)
    assert reloaded is not None
    assert len(reloaded) == 2
    write_config(32240)
    assert listeners.reload(args, None) is None
    assert capsys.readouterr().err == (
        "kproxy: --listen localhost:32240 is given twice: give each listener an address of its own\n"
    )
    with pytest.raises(UserError, match="is given twice"):
        listeners.upstream_listeners(write_config(32240))
