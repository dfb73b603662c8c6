"""The function and the pattern that recognise a schema id agree, and no other module has a pattern for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dissectors
import kproxy
from dissectors.records.schema_ids import HEX_PREFIX, schema_id


@pytest.mark.parametrize("schema_id_number", [1, 7, 256, 9_999_999])
def test_schema_id_is_recognised(schema_id_number: int) -> None:
    data = b"\0" + schema_id_number.to_bytes(4, "big") + b"avro"
    assert schema_id(data) == schema_id_number
    assert re.match(HEX_PREFIX, data.hex().upper())


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\0x", b"\1\0\0\0\7x", b"\0\xff\xff\xff\xffx", b'{"a": 1}'])
def test_data_without_a_schema_id_is_rejected(data: bytes) -> None:
    assert schema_id(data) is None
    assert not re.match(HEX_PREFIX, data.hex().upper())


@pytest.mark.parametrize("schema_id_number", [*(1 << bit for bit in range(31)), 0x7FFFFFFF, 0x0FFFFFFF, 0x10000000])
def test_hex_prefix_matches_exactly_positive_int32(schema_id_number: int) -> None:
    assert re.match(HEX_PREFIX, f"00{schema_id_number:08X}")
    assert not re.match(HEX_PREFIX, f"00{schema_id_number | 1 << 31:08X}")


def test_short_or_implausible_prefix_is_not_a_schema_id() -> None:
    assert schema_id((1 << 40).to_bytes(8, "big")) is None
    assert schema_id(b"\0" + (10_000_000).to_bytes(4, "big") + b"x") is None
    assert schema_id(b"\0\0\0\0\7") is None


def test_hex_prefix_is_defined_in_one_module_only() -> None:
    roots = [Path(package.__file__ or "").parent for package in (dissectors, kproxy)]
    modules = [path.name for root in roots for path in root.rglob("*.py") if "^00(" in path.read_text()]
    assert modules == ["schema_ids.py"]
