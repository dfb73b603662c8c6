"""Shortage: the relay notices a lack of file descriptors or memory before it fails, and reports it once."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import resource
from collections.abc import Callable
from typing import Final

from kproxy.proxy.events import OutOfResources, Report
from kproxy.proxy.sockets import reason

#: Descriptors reserved for name lookups, listeners of brokers, the HTTP endpoint and the next inspector.
RESERVED: Final = 64
_SHORTAGE_NAMES: Final = {
    errno.EMFILE: "out of descriptors",
    errno.ENFILE: "out of descriptors",
    errno.ENOBUFS: "out of memory",
    errno.ENOMEM: "out of memory",
}
_OVER_AFTER_S: Final = 60.0


def is_shortage(error: OSError) -> bool:
    """Return whether this machine lacks resources, so that the peer is not at fault."""
    return error.errno in _SHORTAGE_NAMES


def close_reason(error: OSError) -> str:
    """Return the `how` of a connection in traces if its upstream could not be reached because of this error."""
    return _SHORTAGE_NAMES.get(error.errno or 0, "unreachable")


class Shortage:
    """Checks for descriptors before each client. Reports a shortage once until it has been over for a minute.

    Args:
        report: Called with `OutOfResources`.
        connecting: Returns the number of clients whose upstream socket is not yet open.
    """

    def __init__(self, report: Report, connecting: Callable[[], int]) -> None:
        self._report = report
        self._connecting = connecting
        self._last = -math.inf  # in the loop's time

    def check(self, descriptor: int) -> None:
        """Check that descriptors for a client and its upstream are left, without those that are reserved.

        Args:
            descriptor: Any open descriptor.

        Raises:
            OSError: There are too few (EMFILE).
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return
        lowest_free = os.dup(descriptor)
        os.close(lowest_free)
        if lowest_free + 2 + self._connecting() > limit - min(RESERVED, limit // 4):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def report(self, error: OSError) -> None:
        """Report the shortage that caused this error, unless it was reported already."""
        now = asyncio.get_running_loop().time()
        is_new = now - self._last > _OVER_AFTER_S
        self._last = now
        if is_new:
            self._report(OutOfResources(reason(error)))
