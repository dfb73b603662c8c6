"""The standard streams, which may be closed, lead to a full disk, or to a reader that has left."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def open_closed() -> None:
    """Those that are closed (``>&-``) lead nowhere from now on, else the next socket would get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, open(opened, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def is_unwritable(error: OSError) -> bool:
    """Whether it is the disk's, and no mistake of ours."""
    return error.errno in _UNWRITABLE


def why(error: OSError) -> str:
    """What the system says, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


def give_up_output() -> None:
    """Standard output leads nowhere from now on, also for what waits to be written when the interpreter exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
