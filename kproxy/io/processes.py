"""Checks and kills other processes on this machine."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def is_alive(pid: int) -> bool:
    """Return whether a process with this id exists, whichever user it belongs to."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def lead_group(pid: int = 0) -> None:
    """Put a child, or this process, into its own process group. Both may call this; the first call counts."""
    with suppress(OSError):
        os.setpgid(pid, pid)


def is_group_alive(pid: int) -> bool:
    """Return whether the process group that `pid` leads, or led, has members."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def kill_group(pid: int) -> None:
    """Kill the process group that `pid` leads, including stopped members. The group may not exist."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
