"""Standard streams that are full, closed, or without a reader: kproxy prints at most one sentence."""

import errno
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import pytest

from kproxy.cli import main
from kproxy.control.paths import list_proxies
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.cli.test_relay import ANSWER, REQUEST, Broker, read_trace, until
from tests.kproxy.cli.test_relay import broker as broker
from tests.kproxy.control.conftest import sockets as sockets

FULL = Path("/dev/full")
NEEDS_DEV_FULL = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
CAPTURE = str(CAPTURES / "metadata-retry-loop.pcap.gz")
COMMANDS = [
    ["dissect", CAPTURE],
    ["dissect", "--json", CAPTURE],
    ["dissect", "--findings", CAPTURE],
    ["dissect", "--html", CAPTURE],
    ["explain", "000000130012000000000007000674657374657200"],
    ["rules"],
    ["rules", "L001"],
    ["rules", "rebalance"],
    ["help"],
    ["completion", "bash"],
    ["diff", CAPTURE, CAPTURE],
    ["export-test", CAPTURE, "0:2"],
    ["probe", "--list"],
    ["send", "--encode", "Metadata", "-v", "0"],
    ["quirks"],
    ["broker-features"],
]  # fmt: skip


#: An environment in which standard output is buffered, as it is for users.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def shell(redirections: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run kproxy in a shell with arguments and redirections."""
    command = ["sh", "-c", f'"$0" -m kproxy "$@" {redirections}', sys.executable, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=BUFFERED)


@pytest.mark.slow
@NEEDS_DEV_FULL
@pytest.mark.parametrize(
    "args",
    [pytest.param(args, marks=() if index % 3 == 1 else pytest.mark.wide) for index, args in enumerate(COMMANDS)],
    ids=" ".join,
)
def test_full_disk_is_reported_in_one_sentence(args: list[str]) -> None:
    result = shell("> /dev/full", *args)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == "kproxy: the output is incomplete: no space left on device"
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [pytest.param(args, marks=pytest.mark.wide if index % 3 else ()) for index, args in enumerate(COMMANDS)],
    ids=" ".join,
)
def test_closed_pipe_is_not_an_error(args: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        result = subprocess.run(
            [sys.executable, "-m", "kproxy", *args],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            env=BUFFERED,
        )
    assert result.returncode == 0
    assert b"BrokenPipe" not in result.stderr


class _LimitedOutput(io.TextIOWrapper):
    """A standard output that fails after some characters, as if its reader had left or its disk were full."""

    def __init__(self, file: IO[bytes], capacity: int, error: OSError) -> None:
        super().__init__(file, encoding="utf-8", write_through=True)  # type: ignore[arg-type]
        self.capacity, self.error, self.count = capacity, error, 0

    def write(self, text: str) -> int:
        self.count += len(text)
        if self.count > self.capacity:
            raise self.error
        return super().write(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "status"), [(BrokenPipeError(errno.EPIPE, "Broken pipe"), 0), (OSError(errno.ENOSPC, "No space left"), 2)]
)
def test_output_error_at_any_position_blames_no_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, status: int
) -> None:
    names = ("find-coordinator-v0-right", "metadata-retry-loop")
    inputs = [str(CAPTURES / f"{name}.pcap.gz") for name in names]
    for filter_options in ([], ["-f", "api=FindCoordinator"]):
        with (
            tempfile.TemporaryFile() as file,
            _LimitedOutput(file, 1 << 20, error) as output,
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "stdout", output)
            assert main(["dissect", "--fail-on", "never", *filter_options, *inputs]) == 0
            size = output.count
        capsys.readouterr()
        for capacity in range(0, size, 40):
            with tempfile.TemporaryFile() as file, monkeypatch.context() as patch:
                patch.setattr(sys, "stdout", _LimitedOutput(file, capacity, error))
                assert main(["dissect", "--fail-on", "never", *filter_options, *inputs]) == status
            err = capsys.readouterr().err
            assert not any(name in err for name in names)
            assert err == ("" if status == 0 else "kproxy: the output is incomplete: no space left\n")


@pytest.mark.slow
def test_closed_streams_cause_no_error() -> None:
    assert shell(">&-", "rules").returncode == 0
    assert shell("2>&-", "rules").stdout == shell("", "rules").stdout
    assert shell("2>&-", "dissect", "/nothing").stdout == ""
    assert shell("<&-", "dissect", "-").stderr == (
        "kproxy: standard input is empty: capture again, e.g. with tcpdump -w FILE port 9092\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("redirections", [
    pytest.param("> /dev/full", marks=NEEDS_DEV_FULL),
    pytest.param("2> /dev/full", marks=NEEDS_DEV_FULL),
    pytest.param("> /dev/full 2>&1", marks=NEEDS_DEV_FULL),
    "<&- >&- 2>&-",
    "2>&1 | true",
])  # fmt: skip
def test_proxy_relays_and_traces_with_unusable_streams(tmp_path: Path, broker: Broker, redirections: str) -> None:
    line = f'exec "$0" -m kproxy --listen 127.0.0.1:0 --upstream 127.0.0.1:{broker.port} {redirections}'
    with subprocess.Popen(["sh", "-c", line, sys.executable], cwd=tmp_path, start_new_session=True) as process:
        try:
            until(list_proxies)
            [proxy] = list_proxies()
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", int(proxy.greeting.listeners[0].listen[10:]))) as client:
                    client.sendall(REQUEST)
                    assert client.recv(65536) == ANSWER
            os.kill(proxy.greeting.pid, signal.SIGTERM)
            until(lambda: not list_proxies())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    kinds = sorted(str(line["kind"]) for line in read_trace(tmp_path / "kproxy-trace"))
    assert kinds == ["close", "close", "open", "open", "request", "request", "response", "response"]
