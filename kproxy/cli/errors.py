"""What ends a command: one sentence for the user, and the exit status."""

from __future__ import annotations

#: Exit statuses of every command.
CLEAN, FINDINGS, USAGE, UNREACHABLE, UNWATCHED, NOTHING = 0, 1, 2, 3, 4, 5


class CommandError(Exception):
    """One sentence that says what is wrong and what to do; status 2 for wrong input, 3 for an upstream that is down."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status
