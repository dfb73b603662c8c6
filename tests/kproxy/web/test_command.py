"""`kproxy web` is started and stopped."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.io.extras import install_command
from tests.kproxy.capture_results import DATA
from tests.kproxy.cli.conftest import Run, kproxy

__all__ = ["kproxy"]

_BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"
_KPROXY = (sys.executable, "-W", "error", "-m", "kproxy")


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_command_prints_its_url_and_stops_on_a_signal(stop_signal: signal.Signals, tmp_path: Path) -> None:
    command = [*_KPROXY, "web", "--bind", "0", _BUG]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        output = [process.stderr.readline(), process.stderr.readline()]
        process.send_signal(stop_signal)  # stop it before the assertions, so that it cannot outlive a failed test
        assert re.fullmatch(r"open http://127\.0\.0\.1:\d+/\?token=[\w-]{43}\n", output[0])
        assert output[1] == "press Ctrl-C to stop\n"
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nosuch.pcap"], "nosuch.pcap: No such file or directory"),
        (["--bind", "unix:/tmp/x", _BUG], "--bind unix:/tmp/x: browsers need a TCP port"),
        (["--bind", "70000", _BUG], "--bind '70000': invalid port '70000': use 0 to 65535"),
        (["-f", "nosuch=1", _BUG], "filter: unknown field 'nosuch' at column 1"),
        (["--theme", "x", _BUG], "unknown option --theme; see kproxy web --help"),
        (["--listen", "9092"], "1 --listen and 0 --upstream: each --listen needs one --upstream"),
    ],
)  # fmt: skip
def test_error_is_reported_once_in_one_sentence(arguments: list[object], sentence: str, kproxy: Run) -> None:
    process = kproxy("web", "--bind", "0", *arguments)
    assert (process.returncode, process.stdout, process.stderr) == (2, "", f"kproxy: {sentence}\n")


def test_port_in_use_is_reported(kproxy: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        port = busy_socket.getsockname()[1]
        process = kproxy("web", "--bind", port, _BUG)
    assert process.returncode == 2
    assert process.stderr == (
        f"kproxy: 127.0.0.1:{port} is already in use: stop the process on it, or choose another address with --bind\n"
    )


@pytest.mark.slow
def test_unreachable_upstream_is_reported(kproxy: Run) -> None:
    with socket.socket() as closed_socket:
        closed_socket.bind(("127.0.0.1", 0))
        upstream = f"127.0.0.1:{closed_socket.getsockname()[1]}"
        process = kproxy("web", "--bind", "0", "--listen", "127.0.0.1:0", "--upstream", upstream, "--no-trace")
    assert process.returncode == 3
    assert len(process.stderr.splitlines()) == 1
    assert upstream in process.stderr


def test_missing_aiohttp_is_reported_with_the_install_command(tmp_path: Path) -> None:
    script = "import sys; sys.modules['aiohttp'] = None; from kproxy.cli import main; sys.exit(main())"
    process = subprocess.run([sys.executable, "-c", script, "web", _BUG], capture_output=True, text=True, check=False,
                             timeout=60, cwd=tmp_path)  # fmt: skip
    assert (process.returncode, process.stderr) == (
        2, "kproxy: kproxy web needs the aiohttp package: " + install_command("web") + "\n",
    )  # fmt: skip
