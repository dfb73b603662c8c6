"""Where control sockets are, and who is found there."""

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
from kproxy.control.paths import find, find_only, list_proxies, own_path
from kproxy.control.protocol import ControlError, Greeting

GREETING: dict[str, Any] = {
    "kproxy": "9.9", "protocol": 1, "pid": 4711, "node": "web-1", "started": "2026-11-21T03:00:00.000000Z",
    "listeners": [{"listen": "127.0.0.1:9092", "upstream": "b:9092", "later": 1}], "trace": None, "detail": "summary",
    "later": {"added": True},
}  # fmt: skip


@pytest.fixture(autouse=True)
def own(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory for each test."""
    for left in sockets.glob("*") if sockets.is_dir() else ():
        left.unlink()
    own_path(1)
    yield sockets
    for left in sockets.glob("*"):
        left.unlink()


@contextmanager
def greeting(path: Path, *listen: str, says: bytes | None = None, **changed: Any) -> Iterator[None]:
    """Somebody at `path` who says something to everyone that comes."""
    listeners = [{"listen": each, "upstream": "b:1"} for each in listen] or GREETING["listeners"]
    said = json.dumps({**GREETING, "listeners": listeners, **changed}).encode() + b"\n" if says is None else says
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    return
                with accepted:
                    accepted.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_directory_is_the_users_own_below_the_runtime_directory(own: Path) -> None:
    own.rmdir()
    assert own_path(77) == own / "77.sock"
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("runtime", [None, "", "relative", "/nowhere", "/proc/1"])
def test_without_a_runtime_directory_it_is_below_the_temporary_one(
    runtime: str | None, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    if runtime is not None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    if runtime == "/proc/1":  # of another user
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        with pytest.raises(ControlError, match=r"/kproxy-4242 must be a directory that only this user can enter"):
            own_path(77)
        return
    assert own_path(77) == own.parent / f"kproxy-{os.geteuid()}" / "77.sock"


@pytest.mark.parametrize("wrong", ["open to the group", "open to all", "a link", "a file", "nowhere"])
def test_a_directory_that_others_can_get_at_is_refused(
    wrong: str, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    directory = tmp_path / f"kproxy-{os.geteuid()}"
    match wrong:
        case "a link":
            directory.symlink_to(own)
        case "a file":
            directory.touch()
        case "nowhere":
            monkeypatch.setenv("TMPDIR", str(tmp_path / "no" / "such"))
        case _:
            directory.mkdir()
            directory.chmod(0o710 if wrong == "open to the group" else 0o755)
    with pytest.raises(ControlError, match=r"must be a directory that only this user|cannot create .*: (file|no such)"):
        own_path(77)
    assert list_proxies() == []


def test_lists_those_that_answer_whatever_they_say_beside(own: Path) -> None:
    assert list_proxies() == []
    with greeting(own / "1.sock"), greeting(own / "2.sock", "127.0.0.1:9093", "[::1]:9093", pid=4712):
        first, second = list_proxies()
    assert (first.path, first.greeting.pid, first.greeting.node) == (own / "1.sock", 4711, "web-1")
    assert (second.path, second.greeting.pid) == (own / "2.sock", 4712)
    assert [listener.listen for listener in second.greeting.listeners] == ["127.0.0.1:9093", "[::1]:9093"]


@pytest.mark.parametrize(
    "says", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"{}\n", b'{"error":"16 viewers are connected"}\n', b"x" * 70_000]
)
def test_who_does_not_greet_as_a_proxy_is_left_out(says: bytes, own: Path) -> None:
    with greeting(own / "1.sock", says=says), greeting(own / "2.sock"), greeting(own / "3.sock", protocol=2):
        assert [proxy.path.name for proxy in list_proxies()] == ["2.sock"]


def test_who_says_nothing_holds_up_nobody_for_long(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(path: Path) -> Greeting:
        monkeypatch.setattr(paths, "_GREETING_S", 0.05 if path.name == "1.sock" else 10)  # a thread may answer late
        return asked(path)

    asked = paths._greeting
    monkeypatch.setattr(paths, "_greeting", ask)
    with socket.socket(socket.AF_UNIX) as mute, greeting(own / "2.sock"):
        mute.bind(str(own / "1.sock"))
        mute.listen()
        assert [proxy.path.name for proxy in list_proxies()] == ["2.sock"]


def test_removes_what_dead_processes_have_left_and_nothing_else(own: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"{ended.pid}.sock", f"{os.getpid()}.sock", "own-name.sock", f"{1 << 70}.sock"]
    for name in names:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(own / name))
    (own / "notes.txt").touch()
    assert list_proxies() == []
    assert sorted(path.name for path in own.iterdir()) == sorted([*names[1:3], "notes.txt"])


@pytest.mark.parametrize(
    ("address", "pid"),
    [
        ("9092", 1), (":9092", 1), ("127.0.0.1:9092", 1), ("localhost:9092", 1), ("localhost:9093", 2),
        ("[::1]:9093", 2), ("9094", 3), ("127.0.0.1:9094", 3), ("any.thing.invalid:9094", 3),
        ("[fe80::1]:9094", 3), ("unix:/k.sock", 3), ("9095", 4), ("10.1.2.3:9095", 4),
    ],
)  # fmt: skip
def test_finds_who_listens_there(address: str, pid: int, own: Path) -> None:
    with (
        greeting(own / "1.sock", "127.0.0.1:9092", pid=1),
        greeting(own / "2.sock", "127.0.0.1:9093", "[::1]:9093", pid=2),
        greeting(own / "3.sock", "0.0.0.0:9094", "[::]:9094", "unix:/k.sock", pid=3),
        greeting(own / "4.sock", "10.1.2.3:9095", pid=4),
    ):
        assert find(address).greeting.pid == pid


def test_says_who_is_there_where_none_or_several_fit(own: Path) -> None:
    with pytest.raises(ControlError, match=r"no kproxy listens on 9092: this user runs no kproxy on this machine"):
        find("9092")
    with greeting(own / "1.sock", "127.0.0.1:9092", pid=1), greeting(own / "2.sock", "10.0.0.1:9092", pid=2):
        for nobody in ("9093", "10.9.9.9:9092", "unix:/k.sock", "", "x", "unix:9092"):
            with pytest.raises(ControlError) as none:
                find(nobody)
            assert str(none.value) == (
                f"no kproxy listens on {nobody}; found 127.0.0.1:9092 -> b:1 (pid 1), 10.0.0.1:9092 -> b:1 (pid 2)"
            )
        with pytest.raises(
            ControlError, match=r"several proxies listen on 9092: 127.0.0.1:9092 .*; pass the HOST:PORT of one"
        ):
            find("9092")


def test_the_only_one_need_not_be_named(own: Path) -> None:
    with pytest.raises(ControlError):
        find_only()
    with greeting(own / "1.sock", pid=1):
        assert find_only().greeting.pid == 1
        with (
            greeting(own / "2.sock", "127.0.0.1:9093", pid=2),
            pytest.raises(ControlError, match=r"\(pid 1\).*\(pid 2\)"),
        ):
            find_only()
