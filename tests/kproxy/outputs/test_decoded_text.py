"""Decoded values are shown as text."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.outputs.decoded_text import data_text, facts, problem


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("x\x1b[31m", '"x\\u001b[31m"'),
        ("y" * 50, '"' + "y" * 29 + "..."),
        (b"\xff\x00", "ff 00"),
        (bytes(11), " ".join(["00"] * 10) + "..."),
    ],
)
def test_data_is_shown_in_one_row_of_limited_size(data: Any, expected: str) -> None:
    assert data_text(data, 30) == expected


def test_facts_and_problems_of_a_value_are_shown() -> None:
    value = {"format": "protobuf", "data": {}, "schema": {"global_id": 7}, "type": "a.B", "guess": True, "cut": True}
    assert (
        facts(value | {"reencoding": "3 bytes more"}) == "protobuf? a.B global id 7 (encoded again: 3 bytes more) (cut)"
    )
    assert problem(value) is None
    assert problem({"problem": "no\x1bmore", "offset": 3}) == r"no\x1bmore at byte 3"
    assert problem({"problem": "later"}) == "later"
