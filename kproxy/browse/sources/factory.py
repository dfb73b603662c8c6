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
    """Open a source; blocks.

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
        return _running_proxy(keep)
    if len(names) == 1:
        [name] = names
        path = Path(name.removeprefix("unix:"))
        if name == "-":
            return DissectedSource("standard input", ["-", *options], stdin=_open_stdin(reads_keys=reads_keys))
        if path.is_fifo():  # kproxy tui <(...)
            return DissectedSource(name, ["-", *options], stdin=os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        if path.is_socket():
            return _proxy_at_socket(path, keep)
        if _ADDRESS.fullmatch(name) and not path.exists():
            return _proxy_at(name, keep)
    if "-" in names:
        raise UserError("'-' (standard input) cannot be combined with other sources")
    are_traces = [_is_trace(name) for name in names]
    if all(are_traces):
        return TraceSource([Path(name) for name in names])
    return DissectedSource(files_name(names), [*options, "--", *names])


def _running_proxy(keep: int) -> Source:
    try:
        listeners = find_only().greeting.listeners
    except ControlError as error:
        raise _user_error(error) from None
    return _proxy_at(listeners[0].listen, keep)


def _proxy_at(address: str, keep: int) -> Source:
    try:
        find(address)
    except ControlError as error:
        raise _user_error(error) from None
    return ProxySource(address, lambda: find(address).path, keep=keep)


def _user_error(error: ControlError) -> UserError:
    if isinstance(error, AmbiguousProxyError):
        return AmbiguousSourceError(str(error), error.choices())
    return UserError(str(error))


def _proxy_at_socket(path: Path, keep: int) -> Source:
    """Open the proxy that listens on a Unix socket, or whose control socket it is."""
    try:
        return _proxy_at(f"unix:{path}", keep)
    except UserError:
        pass

    async def reach() -> None:
        async with connect(path):
            pass

    try:
        asyncio.run(reach())
    except ControlError as error:
        raise UserError(str(error)) from None
    return ProxySource(str(path), lambda: path, keep=keep)


def _open_stdin(*, reads_keys: bool) -> int:
    """Return a descriptor of the piped input; with `reads_keys`, standard input becomes the terminal."""
    if sys.stdin.isatty():
        raise UserError("'-' needs a pipe, e.g. tcpdump -i lo -w - port 9092 | kproxy tui -")
    piped = os.dup(0)
    if not reads_keys:
        return piped
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os.close(piped)
        raise UserError("no terminal to read keys from; kproxy dissect - works without one") from None
    os.dup2(terminal, 0)
    os.close(terminal)
    return piped


def _is_trace(name: str) -> bool:
    """Whether the name is that of a trace file, or of a directory with only trace files; false for a capture."""
    path = Path(name)
    if path.is_dir():
        if not (paths := input_files(path)):
            raise UserError(f"{name}: {NO_INPUT} in this directory")
        return all(path.name.endswith(SUFFIXES) for path in paths)
    try:
        return is_trace(path)
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
