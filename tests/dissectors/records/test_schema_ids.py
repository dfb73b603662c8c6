"""The two forms of the schema id's prefix agree, and nothing else reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dissectors
import kproxy
from dissectors.records.schema_ids import HEX_PREFIX, schema_id


@pytest.mark.parametrize("number", [1, 7, 256, 9_999_999])
def test_an_id(number: int) -> None:
    data = b"\0" + number.to_bytes(4, "big") + b"avro"
    assert schema_id(data) == number
    assert re.match(HEX_PREFIX, data.hex().upper())


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\0x", b"\1\0\0\0\7x", b"\0\xff\xff\xff\xffx", b'{"a": 1}'])
def test_no_id(data: bytes) -> None:
    assert schema_id(data) is None
    assert not re.match(HEX_PREFIX, data.hex().upper())


@pytest.mark.parametrize("number", [*(1 << bit for bit in range(31)), 0x7FFFFFFF, 0x0FFFFFFF, 0x10000000])
def test_hex_of_any_positive_int32(number: int) -> None:
    assert re.match(HEX_PREFIX, f"00{number:08X}")
    assert not re.match(HEX_PREFIX, f"00{number | 1 << 31:08X}")


def test_what_only_looks_like_one_in_a_lone_value() -> None:
    assert schema_id((1 << 40).to_bytes(8, "big")) is None
    assert schema_id(b"\0" + (10_000_000).to_bytes(4, "big") + b"x") is None
    assert schema_id(b"\0\0\0\0\7") is None


def test_one_module_knows_the_format() -> None:
    roots = [Path(each.__file__ or "").parent for each in (dissectors, kproxy)]
    knowing = [path.name for root in roots for path in root.rglob("*.py") if "^00(" in path.read_text()]
    assert knowing == ["schema_ids.py"]
