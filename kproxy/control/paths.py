"""Finds control sockets and the running proxies behind them."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kproxy.control.protocol import ControlError, Greeting, parse_greeting
from kproxy.io.processes import is_alive

_GREETING_S: Final = 3.0  # an inspector that is behind sends its greeting late
_GREETING_BYTES: Final = 64 * 1024
_ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A running proxy: its control socket and its greeting."""

    path: Path
    greeting: Greeting


class AmbiguousProxyError(ControlError):
    """Several proxies match; `proxies` lists them."""

    def __init__(self, message: str, proxies: list[RunningProxy]) -> None:
        super().__init__(message)
        self.proxies = proxies

    def choices(self) -> list[tuple[str, str]]:
        """Return for each proxy an unambiguous name (an address, or its control socket) and a description."""
        return [(self._unambiguous_name(proxy), _describe_proxies([proxy])) for proxy in self.proxies]

    def _unambiguous_name(self, proxy: RunningProxy) -> str:
        for candidate in proxy.greeting.listeners:
            others = (other for other in self.proxies if other is not proxy)
            if not any(
                _is_reachable_at(candidate.listen, listener.listen)
                for other in others
                for listener in other.greeting.listeners
            ):
                return candidate.listen
        return str(proxy.path)


def control_socket_path(pid: int) -> Path:
    """Return the path of the control socket of the proxy with this process id. Create the directory if needed.

    Raises:
        ControlError: The directory cannot be created, or other users can access it.
    """
    directory = _runtime_directory(os.environ.get("XDG_RUNTIME_DIR")) or _temporary_directory()
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ControlError(f"cannot create {directory}: {os.strerror(error.errno or 0).lower()}") from None
    if not _is_private(directory):
        raise ControlError(f"{directory} must be a directory that only this user can enter (mode 0700)")
    return directory / f"{pid}.sock"


def list_proxies() -> list[RunningProxy]:
    """Return the running proxies of this user. Blocks up to three seconds for each one that does not answer.

    It also removes the sockets of processes that no longer run.
    """
    proxies = []
    for directory in _directories():
        for path in sorted(directory.glob("*.sock")):
            try:
                proxies.append(RunningProxy(path, _greeting(path)))
            except ConnectionRefusedError:
                if path.stem.isdecimal() and not is_alive(int(path.stem)):
                    path.unlink(missing_ok=True)
            except (OSError, ControlError):
                continue
    return proxies


def find(address: str) -> RunningProxy:
    """Return the user's proxy that listens on ``HOST:PORT``, ``PORT`` or ``unix:PATH``. Blocks like `list_proxies`.

    Raises:
        ControlError: There is no such proxy, or more than one.
    """
    proxies = list_proxies()
    matches = [
        proxy
        for proxy in proxies
        if any(_is_reachable_at(address, listener.listen) for listener in proxy.greeting.listeners)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        message = f"several proxies listen on {address}: {_describe_proxies(matches)}; pass the HOST:PORT of one"
        raise AmbiguousProxyError(message, matches)
    found_text = f"; found {_describe_proxies(proxies)}" if proxies else ": this user runs no kproxy on this machine"
    raise ControlError(f"no kproxy listens on {address}{found_text}")


def find_only() -> RunningProxy:
    """Return the only running proxy of this user. Blocks like `list_proxies`.

    Raises:
        ControlError: There is no proxy, or more than one.
    """
    match list_proxies():
        case [proxy]:
            return proxy
        case []:
            raise ControlError(
                "this user runs no kproxy on this machine: start one with kproxy --listen 9092 --upstream HOST:PORT"
            )
        case proxies:
            raise AmbiguousProxyError(
                f"several proxies are running: {_describe_proxies(proxies)}; pass the HOST:PORT of one", proxies
            )


def _describe_proxies(proxies: list[RunningProxy]) -> str:
    return ", ".join(f"{pair} (pid {proxy.greeting.pid})" for proxy in proxies for pair in proxy.greeting.pairs)


def _greeting(path: Path) -> Greeting:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_GREETING_S)
        sock.connect(str(path))
        line = b""
        while not line.endswith(b"\n") and len(line) < _GREETING_BYTES and (chunk := sock.recv(4096)):
            line += chunk
    return parse_greeting(line)


def _is_reachable_at(address: str, listener: str) -> bool:
    """Return whether `listener`, as in a greeting, is reachable at `address`."""
    host, _, port = address.rpartition(":")
    own_host, _, own_port = listener.rpartition(":")
    if address == listener or port != own_port or "unix" in (host, own_host):
        return address == listener
    host, own_host = host.strip("[]"), own_host.strip("[]")
    return not host or own_host in (host, *_ANY_ADDRESS) or own_host in _ip_addresses(host)


def _ip_addresses(host: str) -> set[str]:
    with suppress(OSError, UnicodeError):
        return {str(target[0]) for *_, target in socket.getaddrinfo(host, None)}
    return set()


def _directories() -> Iterator[Path]:
    """Yield the directories for control sockets of this user. A proxy run as a service may lack `XDG_RUNTIME_DIR`."""
    runtime = _runtime_directory(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    for directory in (runtime, _temporary_directory()):
        if directory is not None and _is_private(directory):
            yield directory


def _runtime_directory(parent: str | None) -> Path | None:
    if not parent or not Path(parent).is_absolute():
        return None
    with suppress(OSError):
        status = Path(parent).stat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            return Path(parent) / "kproxy"
    return None


def _temporary_directory() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"kproxy-{os.geteuid()}"  # noqa: S108  # _is_private checks it


def _is_private(directory: Path) -> bool:
    """Return whether this is a directory, not a link, that belongs to this user and that others cannot access."""
    with suppress(OSError):
        status = directory.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return False
