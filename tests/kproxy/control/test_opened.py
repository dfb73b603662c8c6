"""Control sockets of real proxies: where they are created and when they are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.cli import main
from kproxy.control.paths import find, list_proxies
from tests.kproxy.cli.test_relay import REQUEST, Broker, inspectors, until
from tests.kproxy.cli.test_relay import running as running_proxy
from tests.kproxy.cli.test_restart import FAILING, FAST_RESTART
from tests.kproxy.control.raw import RawViewer


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


@pytest.fixture
def upstream(broker: Broker) -> tuple[str, ...]:
    return "--upstream", f"127.0.0.1:{broker.port}", "-q", "--no-trace"


@pytest.mark.slow
def test_two_proxies_have_separate_private_sockets(tmp_path: Path, sockets: Path, upstream: tuple[str, ...]) -> None:
    with running_proxy(tmp_path, *upstream) as first, running_proxy(tmp_path, *upstream) as second:
        assert sorted(proxy.greeting.pid for proxy in list_proxies()) == sorted([first.process.pid, second.process.pid])
        for proxy in (first, second):
            located = find(str(proxy.port))
            assert located.greeting.pid == proxy.process.pid
            assert located.path == sockets / f"{proxy.process.pid}.sock"
            assert located.path.lstat().st_mode & 0o777 == 0o600
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert first.end(signal.SIGTERM)[1].count("\n") == 1  # the socket is not mentioned
        assert [proxy.greeting.pid for proxy in list_proxies()] == [second.process.pid]
        second.end()
    assert list(sockets.iterdir()) == []


@pytest.mark.slow
def test_socket_is_created_at_the_given_path(tmp_path: Path, sockets: Path, upstream: tuple[str, ...]) -> None:
    path = sockets.parent / "mine.sock"
    with running_proxy(tmp_path, *upstream, "--control", path) as proxy, RawViewer(path) as viewer:
        assert viewer.read_line()["pid"] == proxy.process.pid
        assert list_proxies() == []
        proxy.end()
        assert not path.exists()


def test_no_control_disables_the_socket(tmp_path: Path, upstream: tuple[str, ...]) -> None:
    with running_proxy(tmp_path, *upstream, "--no-control") as proxy:
        assert list_proxies() == []
        proxy.send_requests()


@pytest.mark.slow
def test_proxy_runs_without_a_socket_if_the_directory_is_not_private(
    tmp_path: Path, upstream: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    directory = tmp_path / f"kproxy-{os.geteuid()}"
    directory.mkdir(0o755)
    with running_proxy(tmp_path, *upstream) as proxy:
        proxy.send_requests()
        _, err = proxy.end()
        assert proxy.process.returncode == 0
    assert err.splitlines()[0] == (
        f"kproxy: no control socket: {directory} must be a directory that only this user can enter "
        "(mode 0700);"
        " traffic is still relayed; use --control PATH to put the socket elsewhere"
    )
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("path", ["", "x" * 108, "no/such/directory/k.sock", "/dev/null"])
def test_invalid_path_prints_one_sentence_and_exits_with_2(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1", "--no-trace", "--control", path]) == 2
    err = capsys.readouterr().err
    assert err.startswith("kproxy: --control: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_failed_start_leaves_no_socket(tmp_path: Path, sockets: Path, broker: Broker) -> None:
    options = ["--listen", f"127.0.0.1:{broker.port}", "--upstream", "127.0.0.1:1", "--no-trace"]
    command = [sys.executable, "-m", "kproxy", *options]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert list(sockets.iterdir()) == []


@pytest.mark.slow
def test_viewers_get_a_message_that_the_inspector_failed(tmp_path: Path, sockets: Path, broker: Broker) -> None:
    upstream = "--upstream", f"127.0.0.1:{broker.port}", "-q"
    program = ["-c", FAILING.replace("DIVISOR", "20")]
    with running_proxy(tmp_path, *upstream, program=program) as proxy:
        for _ in range(6):
            with RawViewer(find(str(proxy.port)).path) as viewer:
                viewer.read_line()
                viewer.request(id=1, do="watch")
                proxy.send_requests()
                lines = viewer.read_rest()
            assert [line["kind"] for line in lines][-3:] == ["open", "request", "gap"]
            assert lines[-1]["reason"] == "the inspector failed: later traffic is missing"
        until(lambda: not list(sockets.iterdir()))
        proxy.send_requests()


@pytest.mark.slow
def test_restarted_inspector_uses_the_same_socket_path(tmp_path: Path, sockets: Path, broker: Broker) -> None:
    upstream = "--upstream", f"127.0.0.1:{broker.port}", "-q"
    with running_proxy(tmp_path, *upstream, program=["-c", FAST_RESTART]) as proxy, proxy.connect() as client:
        [path] = sockets.iterdir()
        with RawViewer(path) as viewer:
            first_greeting = viewer.read_line()
            viewer.request(id=1, do="watch")
            client.sendall(REQUEST)
            assert {viewer.read_line()["kind"] for _ in range(2)} <= {"open", "request", "response"}
            [inspector] = inspectors(proxy.process.pid)
            os.kill(inspector, signal.SIGKILL)
            assert viewer.read_rest() == []
        with RawViewer(path) as viewer:  # the greeting comes from the new inspector
            second_greeting = viewer.read_line()
            until(lambda: len(viewer.request(id=1, do="connections")["connections"]) == 1)
            viewer.request(id=2, do="watch", backlog=True)
            lines = [viewer.read_line() for _ in range(2)]
            assert viewer.request(id=3, do="stop") == {"id": 3, "stopping": True}
        assert proxy.process.wait(10) == 4
    assert (first_greeting["restarts"], second_greeting["restarts"]) == (0, 1)
    assert first_greeting["started"] == second_greeting["started"]
    assert lines[0]["reason"].startswith("the inspector was restarted: ")
    assert (lines[1]["kind"], lines[1]["midstream"]) == ("open", True)
    assert list(sockets.iterdir()) == []


@pytest.mark.slow
def test_killed_inspector_leaves_no_socket_after_the_relay_ends(
    tmp_path: Path, sockets: Path, upstream: tuple[str, ...]
) -> None:
    with running_proxy(tmp_path, *upstream) as proxy:
        with RawViewer(find(str(proxy.port)).path) as viewer:
            viewer.read_line()
            [inspector] = inspectors(proxy.process.pid)
            os.kill(inspector, signal.SIGKILL)
            assert viewer.read_rest() == []
        proxy.end()
    assert list(sockets.iterdir()) == []
    assert list_proxies() == []
