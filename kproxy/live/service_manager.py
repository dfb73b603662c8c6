"""Reports the state of kproxy to systemd or another service manager: the datagrams of sd_notify(3)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress


def notify(*states: str, status: str | None = None) -> None:
    """Send states such as ``READY=1``, and a human-readable status, to ``$NOTIFY_SOCKET``. Never block.

    Do nothing if the variable is not set. Ignore errors: the relay must continue without a service manager.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):  # "vsock:" is for whole virtual machines
        return
    lines = [*states] if status is None else [*states, f"STATUS={' '.join(status.splitlines())}"]
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto("\n".join(lines).encode(errors="surrogateescape"), address)


def notify_ready(relayed: Iterable[tuple[str, str]]) -> None:
    """Report that clients can connect; `relayed` are the listeners and their upstreams."""
    notify(
        "READY=1",
        status="relaying " + ", ".join(f"{listen_address} -> {upstream}" for listen_address, upstream in relayed),
    )


@contextmanager
def notify_reloading(get_relayed: Callable[[], Iterable[tuple[str, str]]]) -> Iterator[None]:
    """Report that the configuration is being reread; `get_relayed` returns the argument of `notify_ready`."""
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notify("RELOADING=1", f"MONOTONIC_USEC={now_us}", status="reading the configuration")
    try:
        yield
    finally:
        notify_ready(get_relayed())
