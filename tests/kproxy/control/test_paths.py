"""The paths of control sockets, and how proxies are found through them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.control import paths
from kproxy.control.paths import control_socket_path, find, find_only, list_proxies
from kproxy.control.protocol import ControlError, Greeting

GREETING: dict[str, Any] = {
    "kproxy": "9.9", "protocol": 1, "pid": 4711, "node": "web-1", "started": "2026-11-21T03:00:00.000000Z",
    "listeners": [{"listen": "127.0.0.1:9092", "upstream": "b:9092", "later": 1}], "trace": None, "detail": "summary",
    "later": {"added": True},
}  # fmt: skip


@pytest.fixture(autouse=True)
def socket_dir(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the socket directory, emptied for each test."""
    for socket_path in sockets.glob("*") if sockets.is_dir() else ():
        socket_path.unlink()
    control_socket_path(1)
    yield sockets
    for socket_path in sockets.glob("*"):
        socket_path.unlink()


@contextmanager
def greeting(path: Path, *listen: str, reply: bytes | None = None, **fields: Any) -> Iterator[None]:
    """Run a server at `path` that sends a greeting, or another reply, to each connection."""
    listeners = [{"listen": address, "upstream": "b:1"} for address in listen] or GREETING["listeners"]
    data = json.dumps({**GREETING, "listeners": listeners, **fields}).encode() + b"\n" if reply is None else reply
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                with accepted:
                    accepted.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_socket_directory_is_private_and_in_the_runtime_directory(socket_dir: Path) -> None:
    socket_dir.rmdir()
    assert control_socket_path(77) == socket_dir / "77.sock"
    assert socket_dir.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("runtime", [None, "", "relative", "/nowhere", "/proc/1"])
def test_socket_directory_falls_back_to_the_temporary_directory(
    runtime: str | None, socket_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    if runtime is not None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    if runtime == "/proc/1":  # owned by a different user
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        with pytest.raises(ControlError, match=r"/kproxy-4242 must be a directory that only this user can enter"):
            control_socket_path(77)
        return
    assert control_socket_path(77) == socket_dir.parent / f"kproxy-{os.geteuid()}" / "77.sock"


@pytest.mark.parametrize("problem", ["open to the group", "open to all", "a link", "a file", "nowhere"])
def test_directory_that_is_not_private_is_rejected(
    problem: str, socket_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    directory = tmp_path / f"kproxy-{os.geteuid()}"
    match problem:
        case "a link":
            directory.symlink_to(socket_dir)
        case "a file":
            directory.touch()
        case "nowhere":
            monkeypatch.setenv("TMPDIR", str(tmp_path / "no" / "such"))
        case _:
            directory.mkdir()
            directory.chmod(0o710 if problem == "open to the group" else 0o755)
    with pytest.raises(ControlError, match=r"must be a directory that only this user|cannot create .*: (file|no such)"):
        control_socket_path(77)
    assert list_proxies() == []


def test_lists_proxies_and_ignores_unknown_fields(socket_dir: Path) -> None:
    assert list_proxies() == []
    with greeting(socket_dir / "1.sock"), greeting(socket_dir / "2.sock", "127.0.0.1:9093", "[::1]:9093", pid=4712):
        first, second = list_proxies()
    assert (first.path, first.greeting.pid, first.greeting.node) == (socket_dir / "1.sock", 4711, "web-1")
    assert (second.path, second.greeting.pid) == (socket_dir / "2.sock", 4712)
    assert [listener.listen for listener in second.greeting.listeners] == ["127.0.0.1:9093", "[::1]:9093"]


@pytest.mark.parametrize(
    "reply", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"{}\n", b'{"error":"16 viewers are connected"}\n', b"x" * 70_000]
)
def test_servers_without_a_proxy_greeting_are_skipped(reply: bytes, socket_dir: Path) -> None:
    with (
        greeting(socket_dir / "1.sock", reply=reply),
        greeting(socket_dir / "2.sock"),
        greeting(socket_dir / "3.sock", protocol=2),
    ):
        assert [proxy.path.name for proxy in list_proxies()] == ["2.sock"]


def test_silent_server_delays_listing_the_proxies_only_briefly(
    socket_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greet_quickly(path: Path) -> Greeting:
        monkeypatch.setattr(
            paths, "_GREETING_S", 0.05 if path.name == "1.sock" else 10
        )  # the other thread may be slow to reply
        return original_greeting(path)

    original_greeting = paths._greeting
    monkeypatch.setattr(paths, "_greeting", greet_quickly)
    with socket.socket(socket.AF_UNIX) as silent_socket, greeting(socket_dir / "2.sock"):
        silent_socket.bind(str(socket_dir / "1.sock"))
        silent_socket.listen()
        assert [proxy.path.name for proxy in list_proxies()] == ["2.sock"]


def test_only_sockets_of_dead_processes_are_removed(socket_dir: Path) -> None:
    dead_process = subprocess.Popen([sys.executable, "-c", ""])
    dead_process.wait()
    names = [f"{dead_process.pid}.sock", f"{os.getpid()}.sock", "own-name.sock", f"{1 << 70}.sock"]
    for name in names:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(socket_dir / name))
    (socket_dir / "notes.txt").touch()
    assert list_proxies() == []
    assert sorted(path.name for path in socket_dir.iterdir()) == sorted([*names[1:3], "notes.txt"])


@pytest.mark.parametrize(
    ("address", "pid"),
    [
        ("9092", 1), (":9092", 1), ("127.0.0.1:9092", 1), ("localhost:9092", 1), ("localhost:9093", 2),
        ("[::1]:9093", 2), ("9094", 3), ("127.0.0.1:9094", 3), ("any.thing.invalid:9094", 3),
        ("[fe80::1]:9094", 3), ("unix:/k.sock", 3), ("9095", 4), ("10.1.2.3:9095", 4),
    ],
)  # fmt: skip
def test_proxy_is_found_by_its_listener(address: str, pid: int, socket_dir: Path) -> None:
    with (
        greeting(socket_dir / "1.sock", "127.0.0.1:9092", pid=1),
        greeting(socket_dir / "2.sock", "127.0.0.1:9093", "[::1]:9093", pid=2),
        greeting(socket_dir / "3.sock", "0.0.0.0:9094", "[::]:9094", "unix:/k.sock", pid=3),
        greeting(socket_dir / "4.sock", "10.1.2.3:9095", pid=4),
    ):
        assert find(address).greeting.pid == pid


def test_candidates_are_listed_if_none_or_several_match(socket_dir: Path) -> None:
    with pytest.raises(ControlError, match=r"no kproxy listens on 9092: this user runs no kproxy on this machine"):
        find("9092")
    with (
        greeting(socket_dir / "1.sock", "127.0.0.1:9092", pid=1),
        greeting(socket_dir / "2.sock", "10.0.0.1:9092", pid=2),
    ):
        for unknown in ("9093", "10.9.9.9:9092", "unix:/k.sock", "", "x", "unix:9092"):
            with pytest.raises(ControlError) as raised:
                find(unknown)
            assert str(raised.value) == (
                f"no kproxy listens on {unknown}; found 127.0.0.1:9092 -> b:1 (pid 1), 10.0.0.1:9092 -> b:1 (pid 2)"
            )
        with pytest.raises(
            ControlError, match=r"several proxies listen on 9092: 127.0.0.1:9092 .*; pass the HOST:PORT of one"
        ):
            find("9092")


def test_find_only_requires_exactly_one_running_proxy(socket_dir: Path) -> None:
    with pytest.raises(ControlError):
        find_only()
    with greeting(socket_dir / "1.sock", pid=1):
        assert find_only().greeting.pid == 1
        with (
            greeting(socket_dir / "2.sock", "127.0.0.1:9093", pid=2),
            pytest.raises(ControlError, match=r"\(pid 1\).*\(pid 2\)"),
        ):
            find_only()
