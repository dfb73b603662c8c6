"""Version ranges as Kafka's definitions write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.schemas import VersionRange


@pytest.mark.parametrize(
    ("text", "contained", "not_contained"),
    [
        ("0-3", [0, 1, 3], [-1, 4]),
        ("2+", [2, 3, 32767], [1, -1]),
        ("7", [7], [6, 8]),
        ("none", [], [0, -1]),
    ],
)
def test_range_contains_its_versions(text: str, contained: list[int], not_contained: list[int]) -> None:
    parsed = VersionRange.parse(text)
    assert all(version in parsed for version in contained)
    assert not any(version in parsed for version in not_contained)


@given(st.integers(0, 99), st.integers(0, 99))
def test_iteration_yields_the_contained_versions(lowest: int, size: int) -> None:
    version_range = VersionRange.parse(f"{lowest}-{lowest + size}")
    assert [*version_range] == [version for version in range(250) if version in version_range]


def test_iterating_over_an_empty_range_yields_nothing() -> None:
    assert [*VersionRange.parse("none")] == []


def test_open_range_cannot_be_iterated() -> None:
    with pytest.raises(ValueError, match=r"3\+ has no end"):
        iter(VersionRange.parse("3+"))


@pytest.mark.parametrize("text", ["0-3", "2+", "7", "none"])
def test_range_prints_as_it_was_parsed(text: str) -> None:
    assert str(VersionRange.parse(text)) == text


@pytest.mark.parametrize("text", ["", "3-1", "+", "all", "1-"])
def test_invalid_range_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        VersionRange.parse(text)
