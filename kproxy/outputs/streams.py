"""Standard streams that are closed, or that write to a full disk or a closed pipe."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_UNWRITABLE: Final = _NO_ROOM | {errno.EIO}


def reopen_closed_streams() -> None:
    """Redirect closed standard streams (``>&-``) to /dev/null: otherwise the next socket gets their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their descriptors
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def is_unwritable(error: OSError) -> bool:
    """Whether the error is due to the disk and not to kproxy."""
    return error.errno in _UNWRITABLE


def is_output_error(error: OSError) -> bool:
    """Whether only writing can fail like this, so that the error is not about the file being read."""
    return isinstance(error, BrokenPipeError) or error.errno in _NO_ROOM


def error_text(error: OSError) -> str:
    """Return the system's error message, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


def discard_output() -> None:
    """Redirect standard output to /dev/null, including data that is flushed when the interpreter exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
