"""Other processes of this machine."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists, of any user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def lead_group(pid: int = 0) -> None:
    """Put a child, or this process, into a process group of its own. Both may call it: the first call counts."""
    with suppress(OSError):
        os.setpgid(pid, pid)


def is_group_alive(pid: int) -> bool:
    """Whether the process group that this process leads, or led, has members."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def kill_group(pid: int) -> None:
    """Kill the process group that this process leads, also members that are stopped. There may be none."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
