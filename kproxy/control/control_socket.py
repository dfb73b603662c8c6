"""Opens and removes the control socket of a proxy, which is private to this user and removed when the proxy ends."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from kproxy.control.paths import control_socket_path
from kproxy.control.protocol import ControlError
from kproxy.proxy.address import parse_listen
from kproxy.proxy.sockets import ListenError, listen


class ControlSocket:
    """A bound Unix socket. `remove` deletes its file, unless another socket has replaced it."""

    def __init__(self, path: Path, sock: socket.socket) -> None:
        self.path = path
        self.socket = sock
        self._identity = _identity(path)

    def remove(self) -> None:
        """Delete the file, then close the socket. May be called again."""
        with suppress(OSError):  # as long as the socket is open, no new proxy replaces the file
            if _identity(self.path) == self._identity:
                self.path.unlink()
        self.socket.close()


def open_socket(path: Path | None = None) -> ControlSocket:
    """Bind and listen at `path`, by default at this process's own path. Connections are not accepted yet.

    Call this before threads are started, because it changes the umask for a moment.

    Raises:
        ControlError: The socket cannot be created.
    """
    path = control_socket_path(os.getpid()) if path is None else path.absolute()
    umask = os.umask(0o177)  # other users must never be able to connect
    try:
        [sock] = listen(parse_listen(f"unix:{path}"), "--control")
    except ValueError as error:
        raise ControlError(f"{path}: {error}") from None
    except ListenError as error:
        raise ControlError(str(error)) from None
    finally:
        os.umask(umask)
    return ControlSocket(path, sock)


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns  # inode numbers are reused at once
