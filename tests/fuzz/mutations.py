"""Damage the bytes of a frame, as a broken writer, a bad disk or an attacker may do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

#: Extreme int16s, int32s and varints that replace a length or a count.
_LENGTHS = (
    b"\xff\xff", b"\x7f\xff", b"\x80\x00", b"\x00\x00", b"\xff\xfe",
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\x00\x01\x00\x00",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80\x80\x00", b"\x00",
    b"\x80\x01", b"\xff\x7f", b"\xff\xff\x03", b"\x7f",
)  # fmt: skip
_FILLERS = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF)
#: The maximum number of bytes that `grow` adds to a frame.
_LARGE = 150 << 10

Mutation = Callable[[Random, bytes, bytes], bytes]


def _random_span(random: Random, size: int, longest: int) -> tuple[int, int]:
    start = random.randint(0, size)
    return start, min(start + random.randint(1, longest), size)


def flip_bits(random: Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _bit in range(random.choice((1, 1, 1, 2, 3, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def overwrite(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _random_span(random, len(data), 8)
    return data[:start] + random.randbytes(end - start) + data[end:]


def cut_end(random: Random, data: bytes, _: bytes) -> bytes:
    return data[: len(data) - random.choice((1, 1, 2, 3, 4, 8, random.randint(1, len(data))))]


def cut_front(random: Random, data: bytes, _: bytes) -> bytes:
    return data[random.randint(1, min(len(data), 12)) :]


def insert(random: Random, data: bytes, _: bytes) -> bytes:
    position = random.randint(0, len(data))
    return data[:position] + random.randbytes(random.choice((1, 1, 2, 4, 8, 16))) + data[position:]


def delete(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _random_span(random, len(data), random.choice((1, 2, 4, 8, 32)))
    return data[:start] + data[end:]


def duplicate(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _random_span(random, len(data), random.choice((2, 4, 16, 64)))
    return data[:end] + data[start:]


def move(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _random_span(random, len(data), 16)
    remaining, moved = data[:start] + data[end:], data[start:end]
    position = random.randint(0, len(remaining))
    return remaining[:position] + moved + remaining[position:]


def fill(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _random_span(random, len(data), random.choice((4, 16, len(data) + 1)))
    return data[:start] + bytes([random.choice(_FILLERS)]) * (end - start) + data[end:]


def replace_length(random: Random, data: bytes, _: bytes) -> bytes:
    """Replace a possible length: a small number that is not larger than the number of bytes after it."""
    size, width = len(data), random.choice((1, 2, 4))
    start = random.randint(0, max(size - width, 0))
    for position in [*range(start, size - width), *range(start)]:
        if 0 < int.from_bytes(data[position : position + width], "big") <= size - position:
            start = position
            break
    return data[:start] + random.choice(_LENGTHS) + data[start + width :]


def splice(random: Random, data: bytes, other_frame: bytes) -> bytes:
    """Join the beginning of one frame and the end of another."""
    return data[: random.randint(0, len(data))] + other_frame[random.randint(0, len(other_frame)) :]


def nest(random: Random, data: bytes, other_frame: bytes) -> bytes:
    """Insert a slice of another frame."""
    position, (start, end) = random.randint(0, len(data)), _random_span(random, len(other_frame), 64)
    return data[:position] + other_frame[start:end] + data[position:]


def grow(random: Random, data: bytes, _: bytes) -> bytes:
    """Repeat a slice until the frame is large; do so rarely, because large frames take long to process."""
    start, end = _random_span(random, len(data), 64)
    if random.random() > 0.02 or start == end:
        return data
    return data[:end] + data[start:end] * (random.randint(1, _LARGE) // (end - start)) + data[end:]


def replace_api(random: Random, data: bytes, _: bytes) -> bytes:
    """Replace the API key and the version of a request."""
    keys = random.choice((data[:2], random.randrange(100).to_bytes(2, "big"), random.randbytes(2)))
    return keys + random.choice((random.randrange(20).to_bytes(2, "big"), random.randbytes(2))) + data[4:]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    overwrite,
    cut_end,
    cut_front,
    insert,
    delete,
    duplicate,
    move,
    fill,
    replace_length,
    replace_length,
    splice,
    nest,
    grow,
    replace_api,
)


def mutate(random: Random, data: bytes, other_frame: bytes, prefix_size: int) -> bytes:
    """Apply up to four mutations, mostly after the first `prefix_size` bytes; `other_frame` provides inserted bytes."""
    prefix = data[:prefix_size] if random.random() < 0.8 else b""
    data = data[len(prefix) :]
    for _ in range(random.choice((0, 1, 1, 1, 1, 2, 2, 3, 4))):
        if data:
            data = random.choice(MUTATIONS)(random, data, other_frame)
    return prefix + data
