"""The socket file of the control socket: its permissions, replacement and removal."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kproxy.control.control_socket import open_socket
from kproxy.control.protocol import ControlError


def test_only_the_user_of_the_proxy_may_connect(sockets: Path) -> None:
    umask = os.umask(0)
    try:
        control = open_socket()
        assert os.umask(0) == 0
    finally:
        os.umask(umask)
    assert control.path == sockets / f"{os.getpid()}.sock"
    assert control.path.lstat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as viewer:
        viewer.connect(str(control.path))  # even before the proxy accepts the connection
    control.remove()
    assert not control.path.exists()
    control.remove()


def test_stale_socket_is_replaced_but_not_one_in_use(sockets: Path) -> None:
    path = sockets.parent / "own.sock"
    open_socket(path).socket.close()
    first = open_socket(path)
    with pytest.raises(ControlError, match=r"own.sock is already in use: .* choose another address with --control"):
        open_socket(path)
    first.socket.close()
    second = open_socket(path)
    first.remove()
    assert path.exists()  # it belongs to the second socket
    second.remove()
    assert not path.exists()


def test_path_cannot_be_taken_while_the_old_socket_is_removed(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sockets.parent / "own.sock"
    old_socket = open_socket(path)

    def try_open_and_unlink(self: Path) -> None:
        patch.undo()
        with pytest.raises(ControlError, match="is already in use"):  # otherwise unlink would now remove the new socket
            open_socket(path)
        self.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", try_open_and_unlink)
        old_socket.remove()
    new_socket = open_socket(path)
    old_socket.remove()
    with socket.socket(socket.AF_UNIX) as viewer:
        viewer.connect(str(path))
    new_socket.remove()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 108, "is limited to 107 bytes"),
        ("no/such/k.sock", "no such file or directory"),
        ("taken", "exists and is not a socket"),
        ("nul\0", "has no path"),
    ],
)
def test_reason_why_the_socket_cannot_be_created_is_reported(sockets: Path, name: str, message: str) -> None:
    (sockets.parent / "taken").touch()
    umask = os.umask(0o22)
    os.umask(umask)
    with pytest.raises(ControlError, match=message) as raised:
        open_socket(sockets.parent / name)
    assert "\n" not in str(raised.value)
    assert os.umask(umask) == umask
