"""Opens a source from command line arguments: files, directories, standard input, an address."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kproxy.browse.sources.capture_child import DissectedSource
from kproxy.browse.sources.files import TraceSource, files_name
from kproxy.browse.sources.proxy import ProxySource
from kproxy.browse.sources.source import AmbiguousSourceError, Source
from kproxy.capture.inputs import NO_INPUT, input_files, is_trace
from kproxy.control.client import connect
from kproxy.control.paths import AmbiguousProxyError, find, find_only
from kproxy.control.protocol import ControlError
from kproxy.errors import UserError
from kproxy.trace.reader import SUFFIXES

_ADDRESS: Final = re.compile(r"(.*:)?\d{1,5}|unix:.+", re.DOTALL)


def open_source(names: Sequence[str], options: Sequence[str], *, keep: int, reads_keys: bool = True) -> Source:
    """Open a source; this blocks.

    Args:
        names: Files and directories, or ``-``, or one address or control socket of a running proxy; if empty, the
            running proxy.
        options: Options of ``kproxy dissect`` for reading captures.
        keep: Bytes of a running proxy's lines to keep.
        reads_keys: Whether to replace piped standard input with the terminal, so that keys can be read.

    Raises:
        UserError: The source cannot be opened.
    """
    if not names:
        return _open_running_proxy(keep)
    if len(names) == 1:
        [name] = names
        path = Path(name.removeprefix("unix:"))
        if name == "-":
            return DissectedSource("standard input", ["-", *options], stdin=_open_stdin(reads_keys=reads_keys))
        if path.is_fifo():  # kproxy tui <(...)
            return DissectedSource(name, ["-", *options], stdin=os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        if path.is_socket():
            return _open_proxy_at_socket(path, keep)
        if _ADDRESS.fullmatch(name) and not path.exists():
            return _open_proxy(name, keep)
    if "-" in names:
        raise UserError("'-' (standard input) cannot be combined with other sources")
    are_traces = [_is_trace(name) for name in names]
    if all(are_traces):
        return TraceSource([Path(name) for name in names])
    return DissectedSource(files_name(names), [*options, "--", *names])


def _open_running_proxy(keep: int) -> Source:
    try:
        listeners = find_only().greeting.listeners
    except ControlError as error:
        raise _user_error(error) from None
    return _open_proxy(listeners[0].listen, keep)


def _open_proxy(address: str, keep: int) -> Source:
    try:
        find(address)
    except ControlError as error:
        raise _user_error(error) from None
    return ProxySource(address, lambda: find(address).path, keep=keep)


def _user_error(error: ControlError) -> UserError:
    if isinstance(error, AmbiguousProxyError):
        return AmbiguousSourceError(str(error), error.choices())
    return UserError(str(error))


def _open_proxy_at_socket(path: Path, keep: int) -> Source:
    """Open the proxy that listens on a Unix socket, or whose control socket it is."""
    try:
        return _open_proxy(f"unix:{path}", keep)
    except UserError:
        pass

    async def try_connecting() -> None:
        async with connect(path):
            pass

    try:
        asyncio.run(try_connecting())
    except ControlError as error:
        raise UserError(str(error)) from None
    return ProxySource(str(path), lambda: path, keep=keep)


def _open_stdin(*, reads_keys: bool) -> int:
    """Return a descriptor of the piped input; with `reads_keys`, standard input becomes the terminal."""
    if sys.stdin.isatty():
        raise UserError("'-' needs a pipe, e.g. tcpdump -i lo -w - port 9092 | kproxy tui -")
    piped_fd = os.dup(0)
    if not reads_keys:
        return piped_fd
    try:
        terminal_fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os.close(piped_fd)
        raise UserError("no terminal to read keys from; kproxy dissect - works without one") from None
    os.dup2(terminal_fd, 0)
    os.close(terminal_fd)
    return piped_fd


def _is_trace(name: str) -> bool:
    """Whether a name denotes a trace file, or a directory that has only trace files; false for a capture."""
    path = Path(name)
    if path.is_dir():
        if not (paths := input_files(path)):
            raise UserError(f"{name}: {NO_INPUT} in this directory")
        return all(path.name.endswith(SUFFIXES) for path in paths)
    try:
        return is_trace(path)
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
