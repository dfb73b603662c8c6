"""Which text in a tree `--mask-text` covers."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.errors import UserError
from kproxy.inspection.text_masks import TextMasks

CARD = r"\b\d{4}-\d{4}\b"


@pytest.mark.parametrize(
    ("expressions", "text", "expected"),
    [
        ([CARD], "card 4111-1111 of Ann", "card (masked) of Ann"),
        ([CARD], "card 41111-1111", "card 41111-1111"),
        ([CARD, "(?i)ann|1111 of"], "card 4111-1111 of Ann", "card (masked) (masked)"),  # overlapping matches
        (["."], "aé", "(masked)"),
        ([r"\C"], "é", "(masked)"),  # a byte inside a character
        (["é"], "naïé\n", "naï(masked)\n"),
        (["a"], "\ud800 b", "\ud800 b"),
        (["a"], "\ud800 a", "? (masked)"),
    ],
)
def test_masks_text(expressions: list[str], text: str, expected: str) -> None:
    assert TextMasks(expressions).mask_text(text) == expected


def test_text_with_many_matches_is_masked_completely() -> None:
    masks = TextMasks(["x"])
    assert masks.mask_text("x " * 1000) == "(masked) " * 1000
    assert masks.mask_text("x " * 1001) == "(masked)"


def test_text_above_the_work_limit_is_masked_completely() -> None:
    masks = TextMasks(["a.*b|a"])
    assert masks.mask_text("a c" * 9 + "c" * (1 << 20)) == "(masked) c" * 9 + "c" * (1 << 20)
    assert masks.mask_text("a c" * 90 + "c" * (1 << 20)) == "(masked)"
    assert masks.mask_tree(["a c" * 20 + "c" * (1 << 20), "a" + "c" * (1 << 24), "b a"])[1:] == ["(masked)", "(masked)"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": ["4111-1111", {"4111-1111": None}]}, {"a": ["(masked)", {"(masked)": None}]}),
        ([True, None, 17, 1.5], [True, None, 17, 1.5]),
        (b"plain", "(masked)"),
    ],
)
def test_masks_trees(data: Any, expected: Any) -> None:
    assert TextMasks([CARD]).mask_tree(data) == expected


def test_numbers_with_a_match_are_masked() -> None:
    assert TextMasks([r"^\d{4}$", r"^1\.5"]).mask_tree([4111, 411, -4111, 1.5]) == ["(masked)", 411, -4111, "(masked)"]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(abc", r"--mask-text \(abc: missing \): \(abc; pass a regular expression in RE2's syntax"),
        ("(?<=a)b", "invalid perl operator"),
        ("", "it matches the empty text"),
        (r"\b", r"--mask-text \\b: it matches the empty text; pass one that needs a character"),
        ("a*", r"--mask-text a\*: it matches the empty text; pass one that needs a character"),
        ("\udcff", "the expression is not text in UTF-8"),
    ],
)
def test_rejects_invalid_expressions(expression: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=reason):
        TextMasks([expression])
    assert capfd.readouterr().err == ""
