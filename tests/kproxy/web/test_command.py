"""`kproxy web` as its user starts and ends it."""

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


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_where_it_is_and_ends_on_a_signal(end: signal.Signals, tmp_path: Path) -> None:
    command = [*_KPROXY, "web", "--bind", "0", _BUG]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        process.send_signal(end)  # before anything is checked, so that no process outlives a failed test
        assert re.fullmatch(r"open http://127\.0\.0\.1:\d+/\?token=[\w-]{43}\n", said[0])
        assert said[1] == "press Ctrl-C to stop\n"
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
def test_what_is_wrong_is_said_in_a_sentence_and_once(arguments: list[object], sentence: str, kproxy: Run) -> None:
    done = kproxy("web", "--bind", "0", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kproxy: {sentence}\n")


def test_a_busy_port(kproxy: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = kproxy("web", "--bind", port, _BUG)
    assert done.returncode == 2
    assert done.stderr == (
        f"kproxy: 127.0.0.1:{port} is already in use: stop the process on it, or choose another address with --bind\n"
    )


def test_an_upstream_that_is_not_there(kproxy: Run) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        upstream = f"127.0.0.1:{nobody.getsockname()[1]}"
        done = kproxy("web", "--bind", "0", "--listen", "127.0.0.1:0", "--upstream", upstream, "--no-trace")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert upstream in done.stderr


def test_without_aiohttp_it_says_what_to_install(tmp_path: Path) -> None:
    absent = "import sys; sys.modules['aiohttp'] = None; from kproxy.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", absent, "web", _BUG], capture_output=True, text=True, check=False,
                          timeout=60, cwd=tmp_path)  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2, "kproxy: kproxy web needs the aiohttp package: " + install_command("web") + "\n",
    )  # fmt: skip
