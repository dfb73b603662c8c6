"""Styled text of the widgets."""

from __future__ import annotations

from rich.text import Text

from kproxy.tui.styled_text import truncate_lines


def test_only_overlong_lines_are_cut() -> None:
    text = Text("a\n\n").append("x" * 4_000, "bold").append("\n").append("y" * 4_001, "red").append("\nend\n")
    cut = truncate_lines(text)
    assert cut.plain.split("\n") == ["a", "", "x" * 4_000, "y" * 4_000 + "…", "end", ""]
    assert {cut.plain[span.start]: span.style for span in cut.spans if span.style} == {"x": "bold", "y": "red"}


def test_a_text_without_them_stays_as_it_is() -> None:
    text = Text("error\n").append("hint", "dim")
    assert truncate_lines(text) is text
