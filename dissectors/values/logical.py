"""Convert Avro's logical types to text: dates and times in ISO 8601, decimals, UUIDs."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # the zone is added as text
_UNITS = {"millis": 1000, "micros": 1, "nanos": 0}
_MAX_DECIMAL_BYTES = 64


def logical_value(value: Any, logical: str, scale: int) -> Any:
    """Return a value as text, or unchanged if it is out of range or its logical type is unknown or does not fit."""
    try:
        if isinstance(value, bytes):
            return _bytes_value(value, logical, scale)
        if isinstance(value, int) and not isinstance(value, bool):
            return _number_value(value, logical)
    except (ValueError, OverflowError):
        pass
    return value


def _bytes_value(value: bytes, logical: str, scale: int) -> Any:
    if logical == "decimal" and len(value) <= _MAX_DECIMAL_BYTES:
        number = int.from_bytes(value, "big", signed=True)
        digits = tuple(map(int, str(abs(number))))
        return f"{Decimal((number < 0, digits, -scale)):f}" if 0 <= scale <= 2 * _MAX_DECIMAL_BYTES else value
    if logical == "uuid" and len(value) == 16:
        return str(UUID(bytes=value))
    if logical == "duration" and len(value) == 12:
        months, days, millis = (int.from_bytes(value[offset : offset + 4], "little") for offset in (0, 4, 8))
        return {"months": months, "days": days, "millis": millis}
    return value


def _number_value(value: int, logical: str) -> Any:
    if logical == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    kind, _, unit = logical.rpartition("-")
    if kind not in ("time", "timestamp", "local-timestamp") or unit not in _UNITS:
        return value
    factor = _UNITS[unit]
    micros, nanos = (value * factor, 0) if factor else divmod(value, 1000)
    moment = _EPOCH + timedelta(microseconds=micros)
    text = moment.isoformat(timespec="milliseconds" if unit == "millis" else "microseconds")
    text += "" if factor else f"{nanos:03}"
    if kind == "time":
        return text.partition("T")[2] if 0 <= micros < 86_400_000_000 else value
    return text + ("Z" if kind == "timestamp" else "")
