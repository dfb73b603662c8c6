"""A full disk causes one message and a count of missing lines, and does not affect traffic."""

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

REQUEST = bytes.fromhex("0000000d 0012 0000 00000001 0003 6c6162")  # ApiVersions v0
RESPONSE = bytes.fromhex("00000010 00000001 0000 00000001 0012 0000 0004")  # ApiVersions, 0 to 4
#: Large enough for the trace of a whole test, so that an inspector that has fallen behind does not fill it again.
DISK_BYTES = 4 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small separate file system."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", mount_point], capture_output=True, text=True
    )
    if process.returncode:
        pytest.skip(f"cannot mount here: {process.stderr.strip()}")
    yield mount_point
    subprocess.run(["umount", mount_point], check=True)


@pytest.fixture
def broker() -> Iterator[Address]:
    """Run a broker that sends the same response to each request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    while connection.recv(len(REQUEST)):
                        connection.sendall(RESPONSE)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def send_requests(proxy: Proxy, times: int) -> int:
    """Send requests one by one over one connection; return the number of their trace lines."""
    with socket.create_connection(proxy.address, timeout=60) as connection:
        for _ in range(times):
            connection.sendall(REQUEST)
            assert connection.recv(len(RESPONSE), socket.MSG_WAITALL) == RESPONSE
    return 2 * times + 2  # requests and responses, open and close


def fill_disk(disk: Path) -> Path:
    """Fill the disk to the last byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def disk_warnings(proxy: Proxy) -> list[str]:
    return [line for line in proxy.printed.splitlines() if "No space left on device" in line]


@pytest.mark.parametrize("full_from_the_start", [True, False])
def test_traffic_continues_and_missing_lines_are_counted(
    disk: Path, broker: Address, tmp_path: Path, full_from_the_start: bool
) -> None:
    proxy = Proxy(broker, disk, "-q", printed=tmp_path / "printed.txt")
    expected = 0
    if not full_from_the_start:
        expected += send_requests(proxy, 10)
        until("the first lines are written", lambda: len(read_lines(proxy.trace, torn_end=True)) == expected)
    filler = fill_disk(disk)
    expected += send_requests(proxy, 2000)
    until("the full disk is reported", lambda: disk_warnings(proxy))
    expected += send_requests(proxy, 100)
    filler.unlink()

    def send_and_find_gaps() -> list[Line]:
        nonlocal expected
        expected += send_requests(proxy, 1)
        return [line for line in read_lines(proxy.trace, torn_end=True) if line["kind"] == "gap"]

    until("the trace is written again", send_and_find_gaps, every=0.5)
    proxy.interrupt(status=4)
    lines = read_lines(proxy.trace)
    [gap] = [line for line in lines if line["kind"] == "gap"]
    assert gap["frames"] > 0
    # This many short connections may cause a finding (C017), which is a separate line.
    assert len(lines) - 1 + gap["frames"] - expected in (0, 1)
    assert len(disk_warnings(proxy)) == 1


def test_full_disk_is_reported_once_with_a_count_at_the_end(disk: Path, broker: Address, tmp_path: Path) -> None:
    fill_disk(disk)
    proxy = Proxy(broker, disk, "-q", printed=tmp_path / "printed.txt")
    expected = send_requests(proxy, 500)
    proxy.interrupt(status=4)
    assert len(disk_warnings(proxy)) == 1
    assert f"{expected} trace lines are missing" in proxy.printed
