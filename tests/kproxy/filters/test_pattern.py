from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters.pattern import PatternError, compile_pattern, glob_pattern
from tests.cpu_time import cpu_seconds

ATOMS = st.sampled_from(["a", "b", "-", ".", r"\d", r"\W", r"\.", "[ab]", "[^a-c]", "[]-]", "1", "A", " ", "()", r"\n"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("({0[0]}|{0[1]})".format)
        | inner.map("(?:{}|)".format)
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{0}", "{0,2}", "{1,}"])).map(
            "({0[0]}){0[1]}".format
        )
    ),
    max_leaves=8,
)
TEXTS = st.text(alphabet="abcA1-. \n]", max_size=8)


@given(
    pattern=PATTERNS,
    prefix=st.sampled_from(["", "^", "(^|-)"]),
    suffix=st.sampled_from(["", "$", "(?:-|$)"]),
    text=TEXTS,
    ignore_case=st.booleans(),
)
def test_pattern_matches_the_same_text_as_the_re_module(
    pattern: str, prefix: str, suffix: str, text: str, ignore_case: bool
) -> None:
    full_pattern = f"{prefix}({pattern}){suffix}"
    python_pattern = re.compile(
        full_pattern.replace("$", r"\Z"), re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG)
    )
    assert compile_pattern(full_pattern, ignore_case=ignore_case)(text) is bool(python_pattern.search(text))


@given(glob=st.text(alphabet="ab*?.[]\\-^$|\n", max_size=6), text=st.text(alphabet="ab.[]\\-^$|\n", max_size=6))
def test_glob_matches_text_with_wildcards(glob: str, text: str) -> None:
    def matches(glob: str, text: str) -> bool:
        if not glob:
            return not text
        if glob[0] == "*":
            return any(matches(glob[1:], text[start:]) for start in range(len(text) + 1))
        return bool(text) and glob[0] in ("?", text[0]) and matches(glob[1:], text[1:])

    assert compile_pattern(glob_pattern(glob))(text) is matches(glob, text)


def test_case_is_ignored_on_request_or_with_a_leading_flag() -> None:
    assert compile_pattern("oRd", ignore_case=True)("ORDERS")
    assert compile_pattern("(?i)oRd")("ORDERS")
    assert not compile_pattern("oRd")("ORDERS")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b", "(.*)*x"])
def test_patterns_that_backtrack_elsewhere_are_fast(pattern: str) -> None:
    results: list[bool] = []
    assert cpu_seconds(lambda: results.append(compile_pattern(pattern)("a" * 20_000 + "!"))) < 1
    assert results == [False]


@pytest.mark.parametrize("pattern", ["", "()", "(){3}", "(((a{0}){999}){999}){999}", "a*", "^|x"])
def test_pattern_that_can_match_nothing_matches_any_text(pattern: str) -> None:
    assert compile_pattern(pattern)("")
    assert compile_pattern(pattern)("b")


def test_search_still_works_after_cached_states_are_dropped() -> None:
    search = compile_pattern("x.{9}y")
    text = "".join(chr(0x100 + number) for number in range(6000))
    assert not search(text)
    assert search(text + "x123456789y")


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a**", 2),
        ("*", 0),
        ("a(", 1),
        ("a)", 1),
        ("[a", 0),
        ("[z-a]", 0),
        ("[[a]", 0),
        ("a{2,1}", 1),
        ("a{1000}", 1),
        (r"a\b", 1),
        (r"(a)\1", 3),
        ("(?=a)", 0),
        ("(?P<n>a)", 0),
        ("a\\", 1),
        ("a(?i)", 1),
        ("(" * 60 + ")" * 60, 50),
        ("((a{50}){50}){50}", 0),
    ],
)
def test_invalid_pattern_is_reported_with_the_position_of_the_error(pattern: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert caught.value.position == position
