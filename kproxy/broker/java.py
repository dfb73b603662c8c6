"""What Java does that clients of Kafka can see."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Java's String.hashCode: 32 bits with a sign; Kafka finds the partition of a group by it."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
