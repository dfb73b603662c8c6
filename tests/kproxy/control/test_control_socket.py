"""The control socket as a file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kproxy.control.control_socket import open_socket
from kproxy.control.protocol import ControlError


def test_only_its_user_may_connect_and_nothing_else_changes(sockets: Path) -> None:
    umask = os.umask(0)
    try:
        control = open_socket()
        assert os.umask(0) == 0
    finally:
        os.umask(umask)
    assert control.path == sockets / f"{os.getpid()}.sock"
    assert control.path.lstat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as viewer:
        viewer.connect(str(control.path))  # although nobody has accepted yet
    control.remove()
    assert not control.path.exists()
    control.remove()


def test_a_stale_one_is_replaced_and_one_that_is_used_is_not(sockets: Path) -> None:
    path = sockets.parent / "own.sock"
    open_socket(path).socket.close()
    first = open_socket(path)
    with pytest.raises(ControlError, match=r"own.sock is already in use: .* choose another address with --control"):
        open_socket(path)
    first.socket.close()
    second = open_socket(path)
    first.remove()
    assert path.exists()  # it is the second's
    second.remove()
    assert not path.exists()


def test_a_new_proxy_cannot_take_the_path_while_the_old_one_removes_its_socket(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sockets.parent / "own.sock"
    old = open_socket(path)

    def unlink(self: Path) -> None:
        patch.undo()
        with pytest.raises(ControlError, match="is already in use"):  # otherwise the new socket would be removed now
            open_socket(path)
        self.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        old.remove()
    new = open_socket(path)
    old.remove()
    with socket.socket(socket.AF_UNIX) as viewer:
        viewer.connect(str(path))
    new.remove()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * 108, "is limited to 107 bytes"),
        ("no/such/k.sock", "no such file or directory"),
        ("taken", "exists and is not a socket"),
        ("nul\0", "has no path"),
    ],
)
def test_says_why_it_cannot_be_there(sockets: Path, name: str, why: str) -> None:
    (sockets.parent / "taken").touch()
    umask = os.umask(0o22)
    os.umask(umask)
    with pytest.raises(ControlError, match=why) as said:
        open_socket(sockets.parent / name)
    assert "\n" not in str(said.value)
    assert os.umask(umask) == umask
