"""Java behaviour that Kafka clients can observe."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, a signed 32-bit integer; Kafka uses it to choose a group's partition."""
    value = 0
    utf16_bytes = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(utf16_bytes), 2):
        value = (31 * value + int.from_bytes(utf16_bytes[index : index + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
