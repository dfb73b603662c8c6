"""The control socket as a proxy opens it: in a directory of its own, for this user alone, gone when the proxy is."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from kproxy.control.paths import own_path
from kproxy.control.protocol import ControlError
from kproxy.proxy.address import parse_listen
from kproxy.proxy.sockets import ListenError, listen


class ControlSocket:
    """A bound Unix socket; `remove` takes its file away, unless another one has taken its place."""

    def __init__(self, path: Path, sock: socket.socket) -> None:
        self.path = path
        self.socket = sock
        self._identity = _identity(path)

    def remove(self) -> None:
        """Remove the file, then close the socket; may be called again."""
        with suppress(OSError):  # until the socket is closed, no new proxy replaces the file
            if _identity(self.path) == self._identity:
                self.path.unlink()
        self.socket.close()


def open_socket(path: Path | None = None) -> ControlSocket:
    """Bind and listen, at `path` or where this process's socket belongs; connections wait until they are accepted.

    To be called before there are threads: for a moment, files are made with mode 0600.

    Raises:
        ControlError: It cannot be.
    """
    path = own_path(os.getpid()) if path is None else path.absolute()
    umask = os.umask(0o177)  # so that there is no moment at which others may connect
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
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns  # inodes are used again at once
