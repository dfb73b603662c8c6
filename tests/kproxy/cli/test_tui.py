"""`kproxy tui` before it opens the screen: invalid usage and started proxies. tests/peers tests the screen."""

import argparse
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from kproxy.cli import command_line, main, relay, tui
from kproxy.control.paths import control_socket_path
from kproxy.errors import UserError
from tests.kproxy.cli.conftest import Run
from tests.kproxy.control.test_paths import greeting

TRACE = Path(__file__).parents[2] / "data" / "groups" / "killed-member.jsonl.gz"
CAPTURE = Path(__file__).parents[3] / "captures" / "metadata-retry-loop.pcap.gz"


@pytest.fixture(autouse=True)
def _hide_other_proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the proxies of the user."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        monkeypatch.setenv("TMPDIR", directory)
        yield


def run_in_terminal(*words: object) -> tuple[int, str]:
    """Run a command line on a terminal; return its status and output."""
    terminal, child_terminal = pty.openpty()
    process = subprocess.run(
        [sys.executable, "-m", "kproxy", *map(str, words)],
        stdin=subprocess.DEVNULL, stdout=child_terminal, stderr=child_terminal, timeout=60, check=False,
    )  # fmt: skip
    os.close(child_terminal)
    output = b""
    with suppress(OSError):  # Linux raises EIO at the end of a terminal
        while chunk := os.read(terminal, 65536):
            output += chunk
    os.close(terminal)
    return process.returncode, output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("bad_lines", "status"), [(0, 0), (1, 2), (2, 2)])
def test_unreadable_lines_set_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bad_lines: int, status: int
) -> None:
    app = SimpleNamespace(session=SimpleNamespace(bad=bad_lines), run=lambda: None, return_code=None)
    monkeypatch.setattr(tui, "app_of", lambda args, source: app)
    monkeypatch.setattr(tui, "_check_terminal", lambda: None)
    assert main(["tui", str(CAPTURE)]) == status
    message = (
        f"kproxy: {bad_lines} line{'s' * (bad_lines > 1)} could not be read; kproxy dissect names the first ones\n"
    )
    assert capsys.readouterr().err == (message if bad_lines else "")


def test_suggests_dissect_if_there_is_no_terminal(kproxy: Run) -> None:
    result = kproxy("tui", CAPTURE)
    assert result.returncode == 2
    assert result.stderr == "kproxy: standard output is not a terminal: use kproxy dissect for text output\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["none.pcap"], "none.pcap: No such file or directory"),
        (["--port", "9092", TRACE], "--port is for captures: leave it out"),
        (["--keylog", "k", TRACE], "--keylog is for captures: leave it out"),
        (["--keep", "2M", TRACE], "--keep is for a running proxy: leave it out"),
        (["--port", "9092", "--listen", "0", "--upstream"], "--port is for captures, and this starts a proxy"),
        (["--payloads", "--schemas", "gone", CAPTURE], "--schemas gone: no such directory"),
        (["--rule", "C018:connections=5", TRACE], "this source is a trace: pass --rule to the proxy that writes it"),
        (["--rule", "C018:connection=5", CAPTURE], "--rule C018:connection=5: C018 has no limit 'connection'"),
        (["-f", "value.id=17", CAPTURE], "the filter reads keys, values or headers of records: pass --payloads"),
        ([], "this user runs no kproxy on this machine: start one with kproxy --listen 9092 --upstream HOST:PORT"),
        (["9092"], "no kproxy listens on 9092: this user runs no kproxy on this machine"),
        (["-f", "api=", CAPTURE], "filter: "),
        (["--theme", "none", CAPTURE], "unknown theme 'none'; use one of "),
        (["--listen", "9092", "--upstream", "--", CAPTURE], "pass a source to read or --listen to start"),
        (["--detail", "full", CAPTURE], "--detail configures a proxy: pass --listen and --upstream too"),
        (["--listen", "0", "--upstream", "--no-control"], "--no-control cannot be used here"),
        (["--listen", "0", "--upstream", "--mask", "key"], "--mask needs --payloads"),
        (["--listen", "0", "--upstream", "-f", "value.id=17"], "the filter reads keys, values or headers of records"),
        (["--keep", "1", CAPTURE], "argument --keep: invalid size '1': use 1M or more"),
        (["--keep", "1GB", CAPTURE], "argument --keep: invalid size '1GB': use 1M or more"),
    ],
)  # fmt: skip
def test_invalid_usage_prints_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[object], sentence: str
) -> None:
    monkeypatch.setattr(tui, "_check_terminal", lambda: None)
    try:
        status = main(["tui", *map(str, words)])
    except SystemExit as error:  # from argparse
        status = int(error.code or 0)
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("kproxy: ")
    assert sentence in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.slow
def test_startup_failure_of_the_proxy_is_reported_with_its_status() -> None:
    status, output = run_in_terminal("tui", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1", "--no-trace")
    assert status == 3
    assert output.startswith("kproxy: upstream 127.0.0.1:1 is unreachable: ")
    assert output.count("\n") == 1


def test_help_has_examples_and_the_exit_status(kproxy: Run) -> None:
    text = kproxy("tui", "--help").stdout
    for part in ("kproxy tui capture.pcap", "exit status: ", "--upstream", "--brokers", "--keylog", "--theme"):
        assert part in text
    assert "--stop-with-stdin" not in text
    assert "--json" not in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["--listen", "9092", "--upstream"], ["--listen=9092", "--upstream"]),
        (
            ["--listen", "1", "--upstream", "a:1", "--listen", "2", "--upstream", "b:2", "--no-check"],
            ["--listen=1", "--listen=2", "--upstream=a:1", "--upstream=b:2", "--no-check"],
        ),
        (["--detail", "raw", "--trace=-x"], ["--trace=-x", "--detail=raw"]),
        (["--topic", "a:1", "--topic", "b", "--acls", "--brokers", "3", "--data", "d e"],
         ["--brokers=3", "--topic=a:1", "--topic=b", "--data=d e", "--acls"]),
    ],
)  # fmt: skip
def test_proxy_options_are_passed_on_unchanged(words: list[str], expected: list[str]) -> None:
    args = parse_args(*words)
    passed_options = command_line.options_of(args, tui.add_proxy_options)
    assert passed_options == expected
    assert parse_args(*passed_options) == args


def test_capture_options_are_passed_only_to_the_capture() -> None:
    args = parse_args("--port", "1", "--port", "2", "--keylog", "keys", "--payloads", "--mask", "key", "--rule",
                      "C018:connections=5", "--", "-x.pcap")  # fmt: skip
    passed_options = command_line.options_of(args, tui.add_capture_options)
    assert passed_options == [
        "--port=1",
        "--port=2",
        "--keylog=keys",
        "--rule=C018:connections=5",
        "--payloads",
        "--mask=key",
    ]
    assert args.sources == ["-x.pcap"]
    assert tui.start_child_proxy(args) is None


def test_accepts_all_relay_options_except_output_options() -> None:
    root, tui_parser = argparse.ArgumentParser(), argparse.ArgumentParser()
    relay.configure(root)
    tui.configure(tui_parser)
    names = {name for action in root._actions for name in action.option_strings}
    assert names - set(tui_parser._option_string_actions) == {
        "--json", "-v", "--verbose", "-q", "--quiet", "--select", "--ignore", "--fail-on",
    }  # fmt: skip


def test_proxy_receives_the_payload_options(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("kproxy.browse.sources.child_proxy.ChildProxy", lambda words, *_: started.append(words))
    words = ["--rule=C018:connections=5", "--payloads", "--registry=http://localhost:8081", "--mask=key",
             "--mask=value.a", "--mask-tag=PII"]  # fmt: skip
    tui.start_child_proxy(parse_args("--listen", "0", "--upstream", *words))
    assert started == [["--listen=0", "--upstream", *words]]


def test_proxy_requires_an_upstream() -> None:
    with pytest.raises(UserError, match="1 --listen and 0 --upstream"):
        tui.start_child_proxy(parse_args("--listen", "0", "--no-trace"))


def test_parses_sizes() -> None:
    assert [parse_args("--keep", text).keep for text in ("1M", "2g", "1048576")] == [1 << 20, 2 << 30, 1 << 20]


def parse_args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    tui.configure(parser)
    return parser.parse_args(words)


def test_several_proxies_are_listed_as_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    control_socket_path(7)
    args = parse_args()
    with (
        greeting(control_socket_path(7), "127.0.0.1:9092", pid=7),
        greeting(control_socket_path(8), "127.0.0.1:19093", pid=8),
    ):
        with pytest.raises(UserError) as raised:
            tui.open_source(args, partial(tui.refuse_ambiguous, "web"))
        assert "\n".join([str(raised.value), *raised.value.lines]) == (
            "several proxies are running; choose one:\n"
            "  kproxy web 127.0.0.1:9092   127.0.0.1:9092 -> b:1 (pid 7)\n"
            "  kproxy web 127.0.0.1:19093  127.0.0.1:19093 -> b:1 (pid 8)"
        )
        source = tui.open_source(args, lambda choices: choices[1][0])
        assert source.name == "127.0.0.1:19093"
        source.close()
