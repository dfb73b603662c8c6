"""A disk that is full: one sentence, a count of what is missing, and traffic as if nothing had happened."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.peers.forwarder import Address
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.trace import Line, read_lines

pytestmark = pytest.mark.root

ASKED = bytes.fromhex("0000000d 0012 0000 00000001 0003 6c6162")  # ApiVersions v0
ANSWER = bytes.fromhex("00000010 00000001 0000 00000001 0012 0000 0004")  # ApiVersions, 0 to 4
#: Room for the trace of a whole test: an inspector that is far behind must not fill it again once there is some.
DISK_BYTES = 4 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", mounted], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


@pytest.fixture
def broker() -> Iterator[Address]:
    """Answers each request of `ask` with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    while connection.recv(len(ASKED)):
                        connection.sendall(ANSWER)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def ask(proxy: Proxy, times: int) -> int:
    """Ask over one connection, one question after the other; how many lines that makes in a trace."""
    with socket.create_connection(proxy.address, timeout=60) as connection:
        for _ in range(times):
            connection.sendall(ASKED)
            assert connection.recv(len(ANSWER), socket.MSG_WAITALL) == ANSWER
    return 2 * times + 2  # requests and responses, open and close


def fill(disk: Path) -> Path:
    """Take every byte that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def warnings_of(proxy: Proxy) -> list[str]:
    return [line for line in proxy.printed.splitlines() if "No space left on device" in line]


@pytest.mark.parametrize("full_from_the_start", [True, False])
def test_traffic_goes_on_and_the_gap_is_counted(
    disk: Path, broker: Address, tmp_path: Path, full_from_the_start: bool
) -> None:
    proxy = Proxy(broker, disk, "-q", printed=tmp_path / "printed.txt")
    expected = 0
    if not full_from_the_start:
        expected += ask(proxy, 10)
        until("the first lines are written", lambda: len(read_lines(proxy.trace, torn_end=True)) == expected)
    filler = fill(disk)
    expected += ask(proxy, 2000)
    until("the full disk is said", lambda: warnings_of(proxy))
    expected += ask(proxy, 100)
    filler.unlink()

    def gaps() -> list[Line]:
        nonlocal expected
        expected += ask(proxy, 1)
        return [line for line in read_lines(proxy.trace, torn_end=True) if line["kind"] == "gap"]

    until("the trace goes on", gaps, every=0.5)
    proxy.interrupt(status=4)
    lines = read_lines(proxy.trace)
    [gap] = [line for line in lines if line["kind"] == "gap"]
    assert gap["frames"] > 0
    # So many short connections may be a finding (C017), which is a line of its own.
    assert len(lines) - 1 + gap["frames"] - expected in (0, 1)
    assert len(warnings_of(proxy)) == 1


def test_a_disk_that_stays_full_is_told_once_and_counted_at_the_end(
    disk: Path, broker: Address, tmp_path: Path
) -> None:
    fill(disk)
    proxy = Proxy(broker, disk, "-q", printed=tmp_path / "printed.txt")
    expected = ask(proxy, 500)
    proxy.interrupt(status=4)
    assert len(warnings_of(proxy)) == 1
    assert f"{expected} trace lines are missing" in proxy.printed
