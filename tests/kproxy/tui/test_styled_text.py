"""Overlong lines of styled text are truncated."""

from __future__ import annotations

from rich.text import Text

from kproxy.tui.styled_text import truncate_lines


def test_only_overlong_lines_are_truncated() -> None:
    text = Text("a\n\n").append("x" * 4_000, "bold").append("\n").append("y" * 4_001, "red").append("\nend\n")
    result = truncate_lines(text)
    assert result.plain.split("\n") == ["a", "", "x" * 4_000, "y" * 4_000 + "…", "end", ""]
    assert {result.plain[span.start]: span.style for span in result.spans if span.style} == {"x": "bold", "y": "red"}


def test_text_without_overlong_lines_is_unchanged() -> None:
    text = Text("error\n").append("hint", "dim")
    assert truncate_lines(text) is text
