"""Version ranges as Kafka's definitions write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.schemas import VersionRange


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("0-3", [0, 1, 3], [-1, 4]),
        ("2+", [2, 3, 32767], [1, -1]),
        ("7", [7], [6, 8]),
        ("none", [], [0, -1]),
    ],
)
def test_knows_which_versions_are_in_it(text: str, inside: list[int], outside: list[int]) -> None:
    parsed = VersionRange.parse(text)
    assert all(version in parsed for version in inside)
    assert not any(version in parsed for version in outside)


@given(st.integers(0, 99), st.integers(0, 99))
def test_iterates_over_what_it_contains(lowest: int, size: int) -> None:
    parsed = VersionRange.parse(f"{lowest}-{lowest + size}")
    assert [*parsed] == [version for version in range(250) if version in parsed]


def test_no_version_is_an_empty_iteration() -> None:
    assert [*VersionRange.parse("none")] == []


def test_a_range_without_end_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match=r"3\+ has no end"):
        iter(VersionRange.parse("3+"))


@pytest.mark.parametrize("text", ["0-3", "2+", "7", "none"])
def test_prints_as_it_was_read(text: str) -> None:
    assert str(VersionRange.parse(text)) == text


@pytest.mark.parametrize("text", ["", "3-1", "+", "all", "1-"])
def test_refuses_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        VersionRange.parse(text)
