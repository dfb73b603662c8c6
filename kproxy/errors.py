"""The exit statuses of all commands, and the error that ends a command with a message for the user."""

from __future__ import annotations

from collections.abc import Sequence

#: Exit statuses of every command; `kproxy.outputs.exit_statuses` describes them.
CLEAN, FINDINGS, USAGE, UNREACHABLE, UNWATCHED, NOTHING = 0, 1, 2, 3, 4, 5
INTERRUPTED = 128 + 2  # as shells report SIGINT


class UserError(Exception):
    """Ends the command with exit status `status`. The message is one sentence: what is wrong and what to do.

    `lines` are shown below the message.
    """

    def __init__(self, message: str, status: int = USAGE, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.lines = lines
