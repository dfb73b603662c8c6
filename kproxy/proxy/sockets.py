"""Opens listening sockets and connections to upstreams, and describes their errors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kproxy.errors import UserError
from kproxy.proxy.address import Address, TcpAddress, UnixAddress

_BACKLOG = 1024
_KEEPALIVE_S = 60  # the system's default of two hours would keep a dead connection for half a day


class ListenError(UserError):
    """An address cannot be listened on; the message says what to do. `cause` is the system's error."""

    def __init__(self, message: str, cause: OSError | None = None) -> None:
        super().__init__(message)
        self.cause = cause


def listen(address: Address, option: str = "--listen") -> list[socket.socket]:
    """Bind and listen. Blocks (name lookup, files). `option` names the command-line option in error messages.

    Returns:
        A non-blocking socket for each IP address of the host, all on one port. Without a host, these are 127.0.0.1 and,
        if the system has IPv6, ::1. A Unix socket is only for its owner (mode 0600); a stale socket file is replaced.

    Raises:
        ListenError: The address is in use, not permitted, or not an address of this machine.
    """
    if isinstance(address, UnixAddress):
        return [_listen_unix(Path(address.path), option)]
    for _ in range(10):
        with contextlib.suppress(_PortInUseError):
            return _listen_tcp(address, option)
    raise ListenError(f"no port is free on all addresses of {address.host or 'loopback'}: choose one with {option}")


def remove_stale(path: Path, option: str = "--listen") -> None:
    """Remove the file of a Unix socket that nothing listens on. Blocks.

    Raises:
        ListenError: A process listens on it, or the file is not a socket.
    """
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise ListenError(f"{path} exists and is not a socket: choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # the backlog is full, so some process listens
    raise ListenError(_listen_error_message(UnixAddress(str(path)), OSError(errno.EADDRINUSE, ""), option))


async def connect(
    address: Address, timeout_s: float, check: Callable[[int, Any], None] = lambda family, target: None
) -> socket.socket:
    """Connect to the first IP address of the host that answers, within this many seconds in total.

    `check` is called with each family and address before it is tried, and may raise an OSError to end the attempt.

    Raises:
        OSError: No address answered; `reason` describes the error.
    """
    loop = asyncio.get_running_loop()
    failure: OSError = TimeoutError(f"no answer within {timeout_s:g} s")
    try:
        async with asyncio.timeout(timeout_s):
            targets = await resolve(address)
            for family, target in targets:
                check(family, target)
                sock = socket.socket(family, socket.SOCK_STREAM)
                sock.setblocking(False)
                try:
                    # An address that drops packets must leave time for the other addresses.
                    async with asyncio.timeout(timeout_s / len(targets)):
                        await loop.sock_connect(sock, target)
                    sock.getpeername()  # asyncio considers a Unix socket with a full backlog connected
                except BaseException as error:
                    sock.close()
                    if not isinstance(error, OSError):
                        raise
                    failure = failure if isinstance(error, TimeoutError) else error
                else:
                    return sock
    except TimeoutError:
        pass
    raise failure


def reason(error: OSError) -> str:
    """Describe an error in a few words, without its number or an address."""
    if isinstance(error, socket.gaierror):
        return "unknown host name"
    return os.strerror(error.errno).lower() if error.errno else str(error)


def address_text(sock_address: Any, family: int) -> str:
    """Return an address from `getpeername` as text, as in traces: ``127.0.0.1:9092``, ``[::1]:9092``, ``unix:``."""
    if family == socket.AF_UNIX:
        return str(UnixAddress(os.fsdecode(sock_address)))
    return str(TcpAddress(sock_address[0], sock_address[1]))


def set_tcp_options(sock: socket.socket) -> None:
    """Make a TCP socket send small frames at once, and detect within minutes that its peer is unreachable.

    Unix sockets stay as they are.

    Raises:
        OSError: The socket is no longer connected.
    """
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)


def reset_on_close(sock: socket.socket) -> None:
    """Send the peer a reset instead of a FIN when the socket is closed."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _PortInUseError(Exception):
    """The port that is free on one address is in use on another."""


def _listen_tcp(address: TcpAddress, option: str) -> list[socket.socket]:
    targets: list[tuple[int, tuple[Any, ...]]] = [(socket.AF_INET, ("127.0.0.1",)), (socket.AF_INET6, ("::1",))]
    if address.host is not None:
        try:
            infos = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except socket.gaierror:
            raise ListenError(f"{address.host!r} does not resolve to this machine: use one of its addresses") from None
        targets = [(family, target) for family, _, _, _, target in infos]
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        port = address.port
        for family, (host, *target_rest) in targets:
            is_optional = address.host is None and family == socket.AF_INET6
            try:
                sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((host, port, *target_rest[1:]))  # the rest: flow info and scope of IPv6
                sock.listen(_BACKLOG)
            except OSError as error:
                if is_optional and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                if error.errno == errno.EADDRINUSE and address.port == 0 and sockets:
                    raise _PortInUseError from None
                raise ListenError(_listen_error_message(TcpAddress(host, port), error, option), error) from None
            sock.setblocking(False)
            port = sock.getsockname()[1]
            sockets.append(sock)
        stack.pop_all()
        return sockets


def _listen_unix(path: Path, option: str) -> socket.socket:
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        sock.setblocking(False)
        try:
            remove_stale(path, option)
            sock.bind(str(path))
            path.chmod(0o600)  # before listen(), because until then no client can connect
            sock.listen(_BACKLOG)
        except OSError as error:
            raise ListenError(_listen_error_message(UnixAddress(str(path)), error, option), error) from None
        stack.pop_all()
        return sock


def _listen_error_message(address: Address, error: OSError, option: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"{address} is already in use: stop the process on it, or choose another address with {option}"
        case errno.EADDRNOTAVAIL:
            return f"{address} is not an address of this machine: choose another with {option}"
        case errno.EACCES | errno.EPERM:
            return f"no permission to listen on {address}: choose another address with {option}"
        case errno.EMFILE:
            return f"cannot listen on {address}: {reason(error)}; raise the limit (ulimit -n)"
        case _:
            return f"cannot listen on {address}: {reason(error)}; choose another address with {option}"


async def resolve(address: Address) -> list[tuple[int, Any]]:
    """Return the family and the socket address of each IP address of the host.

    Raises:
        OSError: The name is unknown.
    """
    if isinstance(address, UnixAddress):
        return [(socket.AF_UNIX, address.path)]
    host, port = address.host or "localhost", address.port
    try:
        try:  # an IP address needs no lookup, hence no thread
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a broker may advertise any text, e.g. a label of 64 characters
        raise socket.gaierror(socket.EAI_NONAME, "no host name") from None
    return [(family, target) for family, _, _, _, target in infos]
