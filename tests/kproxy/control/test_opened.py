"""Which proxies have a control socket, what they say of it, and what ends with standard input."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.cli import main
from kproxy.control.paths import find, running
from kproxy.control.protocol import ControlError
from tests.kproxy.cli.test_broker import running as running_broker
from tests.kproxy.cli.test_relay import FAILING, Broker, children, until
from tests.kproxy.cli.test_relay import running as running_proxy
from tests.kproxy.control.raw import RawViewer


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.stop()


@pytest.fixture
def upstream(broker: Broker) -> tuple[str, ...]:
    return "--upstream", f"127.0.0.1:{broker.port}", "-q", "--no-trace"


def test_two_proxies_are_told_apart_and_closed_to_others(
    tmp_path: Path, sockets: Path, upstream: tuple[str, ...]
) -> None:
    with running_proxy(tmp_path, *upstream) as first, running_proxy(tmp_path, *upstream) as second:
        assert sorted(each.greeting.pid for each in running()) == sorted([first.process.pid, second.process.pid])
        for proxy in (first, second):
            found = find(str(proxy.port))
            assert found.greeting.pid == proxy.process.pid
            assert found.path == sockets / f"{proxy.process.pid}.sock"
            assert found.path.lstat().st_mode & 0o777 == 0o600
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert first.end(signal.SIGTERM)[1].count("\n") == 1  # nothing is said of it
        assert [each.greeting.pid for each in running()] == [second.process.pid]
        second.end()
    assert list(sockets.iterdir()) == []


def test_it_is_where_it_is_wanted(tmp_path: Path, sockets: Path, upstream: tuple[str, ...]) -> None:
    path = sockets.parent / "mine.sock"
    with running_proxy(tmp_path, *upstream, "--control", path) as proxy, RawViewer(path) as viewer:
        assert viewer.line()["pid"] == proxy.process.pid
        assert running() == []
        proxy.end()
        assert not path.exists()


def test_there_is_none_where_none_is_wanted(tmp_path: Path, upstream: tuple[str, ...]) -> None:
    with running_proxy(tmp_path, *upstream, "--no-control") as proxy:
        assert running() == []
        proxy.ask()


def test_where_others_can_get_at_it_there_is_none_and_the_proxy_goes_on(
    tmp_path: Path, upstream: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    directory = tmp_path / f"kproxy-{os.geteuid()}"
    directory.mkdir(0o755)
    with running_proxy(tmp_path, *upstream) as proxy:
        proxy.ask()
        _, err = proxy.end()
        assert proxy.process.returncode == 0
    assert err.splitlines()[0] == (
        f"kproxy: no control socket: {directory} must be a directory that only this user can enter "
        "(mode 0700);"
        " traffic is still relayed; use --control PATH to put the socket elsewhere"
    )
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("path", ["", "x" * 108, "no/such/directory/k.sock", "/dev/null"])
def test_where_it_cannot_be_is_one_sentence_and_status_2(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1", "--no-trace", "--control", path]) == 2
    err = capsys.readouterr().err
    assert err.startswith("kproxy: --control: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_that_cannot_start_leaves_none(tmp_path: Path, sockets: Path, broker: Broker) -> None:
    options = ["--listen", f"127.0.0.1:{broker.port}", "--upstream", "127.0.0.1:1", "--no-trace"]
    command = [sys.executable, "-m", "kproxy", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert list(sockets.iterdir()) == []


def test_an_inspector_that_fails_says_so_to_viewers_too(tmp_path: Path, sockets: Path, broker: Broker) -> None:
    upstream = "--upstream", f"127.0.0.1:{broker.port}", "-q"
    with running_proxy(tmp_path, *upstream, program=["-c", FAILING]) as proxy:
        with RawViewer(find(str(proxy.port)).path) as viewer:
            viewer.line()
            viewer.ask(id=1, do="watch")
            proxy.ask()
            lines = viewer.rest()
        assert [line["kind"] for line in lines] == ["open", "request", "gap"]
        assert lines[-1]["reason"] == "the inspector failed: later traffic is missing"
        until(lambda: not list(sockets.iterdir()))
        proxy.ask()


def test_what_a_killed_inspector_leaves_goes_when_the_relay_has_ended(
    tmp_path: Path, sockets: Path, upstream: tuple[str, ...]
) -> None:
    with running_proxy(tmp_path, *upstream) as proxy:
        with RawViewer(find(str(proxy.port)).path) as viewer:
            viewer.line()
            [inspector] = children(proxy.process.pid)
            os.kill(inspector, signal.SIGKILL)
            assert viewer.rest() == []
        assert running() == []
        with pytest.raises(ControlError, match="this user runs no kproxy on this machine"):
            find(str(proxy.port))
        proxy.end()
    assert list(sockets.iterdir())
    assert running() == []
    assert list(sockets.iterdir()) == []


@pytest.mark.parametrize("path", [None, "a socket.sock"])
def test_a_terminal_is_told_how_to_watch(tmp_path: Path, sockets: Path, broker: Broker, path: str | None) -> None:
    ours, theirs = pty.openpty()
    control = [] if path is None else ["--control", str(sockets.parent / path)]
    command = ["--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{broker.port}", "--no-trace", *control]
    process = subprocess.Popen([sys.executable, "-m", "kproxy", *command], stderr=theirs, cwd=tmp_path)
    os.close(theirs)
    said = b""
    while said.count(b"\n") < 2:
        said += os.read(ours, 4096)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    os.close(ours)
    expected = "kproxy tui" if path is None else f"kproxy tui '{sockets.parent}/{path}'"
    assert re.fullmatch(rf"listening on \S+ -> \S+\r\nwatch it with: {expected}\r\n", said.decode())


def test_a_proxy_of_somebody_ends_with_its_standard_input(tmp_path: Path, broker: Broker) -> None:
    command = [sys.executable, "-m", "kproxy", "--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{broker.port}"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "--no-trace", "--stop-with-stdin"], cwd=tmp_path, text=True, **pipes)
    with process:
        assert process.stderr is not None
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", process.stderr.readline())
        assert found is not None
        print("what is said is not heard", file=process.stdin, flush=True)
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=10):
            assert process.poll() is None
            _, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_so_does_one_with_the_built_in_broker_which_obeys_until_then(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--no-trace", "-q", "--stop-with-stdin") as kproxy:
        assert kproxy.told("brokers").endswith(" up")
        kproxy.process.communicate(timeout=10)
        assert kproxy.process.returncode == 0


def test_without_that_option_the_end_of_standard_input_ends_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--no-trace", "-q") as kproxy:
        assert kproxy.told("brokers").endswith(" up")
        with pytest.raises(subprocess.TimeoutExpired):
            kproxy.process.communicate(timeout=0.2)
        kproxy.ask("Metadata", 9, {"topics": []})


def test_it_is_an_option_for_programs_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert "--control PATH" in out
    assert "stop-with-stdin" not in out
