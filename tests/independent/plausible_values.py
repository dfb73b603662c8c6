"""Find broken bytes that are also a valid frame with ordinary values: nothing reveals the damage."""

from __future__ import annotations

import struct
from typing import Any

from tests.independent.definitions import Member, Reader, Struct, Values, shared_message
from tests.independent.frames import Case

_RANGES = {
    "throttle_time_ms": (0, 60_000), "port": (-1, 65_535), "isolation_level": (0, 1), "key_type": (0, 2),
    "coordinator_type": (0, 2), "permission_type": (0, 3), "operation": (0, 15), "resource_type": (0, 32),
    "pattern_type": (0, 4), "resource_pattern_type": (0, 4), "acks": (-1, 1), "endpoint_type": (1, 2),
    "replication_factor": (-1, 100), "config_type": (0, 9), "config_source": (0, 8),
}  # fmt: skip
_TYPES = {"int8": (-2, 64), "int16": (-2, 20_000), "int32": (-3, 1 << 24), "int64": (-6, 1 << 42)}
_UNBOUNDED = ("authorized_operations", "session_id", "subscription_id")
_LARGE = ("_ms", "bytes")
_FREE_TEXT = ("message", "value", "documentation", "reason")


def leaves_no_trace(case: Case) -> bool:
    """Return whether the broken frame or payload can be read to its last byte as a correct one with ordinary values."""
    name = case.valid.name
    if case.payload:
        version = case.payload_values["header"]["version"]
        prefixed = case.payload_name != "SubscriptionInfoData"
        data, start = case.broken_payload, int(prefixed) * 2
        stated_version = int.from_bytes(data[:2] if prefixed else data[:4], "big", signed=True)
        return stated_version == version and _is_readable(
            Reader(data, start), shared_message(case.payload_name, version)
        )
    header = shared_message("RequestHeader" if case.valid.is_request else "ResponseHeader", case.valid.header_version)
    reader = Reader(case.broken, 4)
    return _is_readable(reader, header, to_the_end=False) and _is_readable(
        reader, shared_message(name, case.valid.version)
    )


def _is_readable(reader: Reader, layout: Struct, *, to_the_end: bool = True) -> bool:
    try:
        values = reader.struct(layout)
    except (ValueError, struct.error):
        return False
    return not to_the_end or (
        reader.pos == len(reader.data) and not _has_wrong_bool(reader) and _has_ordinary_values(layout, values)
    )


def _has_wrong_bool(reader: Reader) -> bool:
    return any(byte not in (0, 1) for byte in reader.bools)


def _has_ordinary_values(layout: Struct, values: Values) -> bool:
    for member in (*layout.members, *layout.tagged):
        value = values.get(member.name)
        if value is None:
            if member.name in values and not member.nullable:
                return False
            continue
        for element in value if member.array else (value,):
            if not (_has_ordinary_values(member.inner, element) if member.inner else _is_ordinary(member, element)):
                return False
    return "_tags" not in values


def _is_ordinary(member: Member, value: Any) -> bool:
    if isinstance(value, str):
        return member.name.endswith(_FREE_TEXT) or value.isprintable()
    if (
        not isinstance(value, int)
        or member.kind not in _TYPES
        or any(name_part in member.name for name_part in _UNBOUNDED)
    ):
        return True
    if member.name.endswith("error_code"):
        # Brokers may define codes; a code that ends with a byte of 0 or 255 looks like halves of two other numbers.
        return -1 <= value <= 137 or value & 255 not in (0, 255)
    lowest, highest = _RANGES.get(member.name, _TYPES[member.kind])
    if any(name_part in member.name for name_part in _LARGE) and member.name not in _RANGES:
        highest = 1 << 62
    return lowest <= value <= highest
