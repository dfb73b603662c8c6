"""The two forms of the schema id's prefix agree, and nothing else reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dissectors
import kproxy
from dissectors.records.schema_ids import HEX_PREFIX, HEX_ZERO, schema_id


def is_prefix(data: bytes) -> bool:
    text = data.hex().upper()
    return re.match(HEX_PREFIX, text) is not None and re.match(HEX_ZERO, text) is None


@pytest.mark.parametrize("number", [1, 7, 256, 9_999_999])
def test_an_id(number: int) -> None:
    data = b"\0" + number.to_bytes(4, "big") + b"avro"
    assert schema_id(data) == number
    assert is_prefix(data)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\0x", b"\1\0\0\0\7x", b"\0\xff\xff\xff\xffx", b'{"a": 1}'])
def test_no_id(data: bytes) -> None:
    assert schema_id(data) is None
    assert not is_prefix(data)


def test_what_only_looks_like_one_in_a_lone_value() -> None:
    assert schema_id((1 << 40).to_bytes(8, "big")) is None
    assert schema_id(b"\0" + (10_000_000).to_bytes(4, "big") + b"x") is None
    assert schema_id(b"\0\0\0\0\7") is None


def test_one_module_knows_the_format() -> None:
    roots = [Path(each.__file__ or "").parent for each in (dissectors, kproxy)]
    knowing = [path.name for root in roots for path in root.rglob("*.py") if "^00[0-7]" in path.read_text()]
    assert knowing == ["schema_ids.py"]
