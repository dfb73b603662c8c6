"""Errors in pasted text."""

from __future__ import annotations


class HexError(ValueError):
    """The text is not hex. `line` and `column` count from 1; the message says how to fix it."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.args[0]}"


def error_at(text: str, index: int, message: str) -> HexError:
    """Return the error for the character `text[index]`, or for the end of the text."""
    return HexError(message, line=text.count("\n", 0, index) + 1, column=index - text.rfind("\n", 0, index))
