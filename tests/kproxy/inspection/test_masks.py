"""Which fields of a tree `--mask` covers."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.errors import UserError
from kproxy.inspection.masks import Masks
from kproxy.trace.record_values import MASKED

TREE = {"card": {"number": "4111", "by": [{"name": "Ann"}, {"name": "Bob"}]}, "number": 7}


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("value.card.number", TREE | {"card": TREE["card"] | {"number": MASKED}}),  # type: ignore[operator]
        ("value.card.by.name", TREE | {"card": TREE["card"] | {"by": [{"name": MASKED}, {"name": MASKED}]}}),  # type: ignore[operator]
        ("value.card.n*", TREE | {"card": TREE["card"] | {"number": MASKED}}),  # type: ignore[operator]
        ("value.**.number", {"card": TREE["card"] | {"number": MASKED}, "number": MASKED}),  # type: ignore[operator]
        ("value.**", {"card": MASKED, "number": MASKED}),
        ("value", MASKED),
        ("orders:value.card", TREE | {"card": MASKED}),
        ("ord*:value.card", TREE | {"card": MASKED}),
        ("other:value.card", TREE),
        ("value.gone", TREE),
        ("key.card", TREE),
    ],
)
def test_masks_fields(mask: str, expected: Any) -> None:
    assert Masks([mask]).masked(TREE, "orders", "value") == expected


def test_value_without_fields_is_masked_completely() -> None:
    assert Masks(["value.card"]).masked("4111", "orders", "value") == MASKED


def test_masks_of_every_topic_apply_if_the_topic_is_unknown() -> None:
    assert Masks(["orders:value.card"]).masked(TREE, None, "value")["card"] == MASKED


def test_masks_headers_by_name_and_topic() -> None:
    masks = Masks(["header.app.token", "orders:header.x-*"])
    assert [masks.masks_header("orders", name) for name in ("app.token", "x-id", "other")] == [True, True, False]
    assert not masks.masks_header("others", "x-id")


def test_header_names_match_case_insensitively() -> None:
    assert Masks(["header.authorization"]).masks_header(None, "Authorization")
    assert Masks(["header.X-Api-*"]).masks_header(None, "x-API-key")
    assert not Masks(["Orders:header.authorization"]).masks_header("orders", "authorization")


@pytest.mark.parametrize("mask", ["card", "value.", "orders:", "value..x", ""])
def test_rejects_invalid_masks(mask: str) -> None:
    with pytest.raises(UserError, match=r"pass \[TOPIC:\]key, value or header"):
        Masks([mask])
