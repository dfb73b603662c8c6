"""Kafka's compression codecs (gzip, snappy, lz4, zstd), with a limit on the decompressed size."""

from __future__ import annotations

import struct

import cramjam

from dissectors.records.allowance import Allowance
from dissectors.wire.errors import DecodeError

#: Names by codec number, the low three bits of the attributes.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: The default limit on decompressed bytes per call.
DEFAULT_LIMIT = 64 << 20

# The memory charged per record: even a few bytes become a dictionary or nodes of about this size.
_RECORD_COST = 256

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_SNAPPY_RATIO = 22  # three bytes copy at most 64
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_MAGICS = {1: b"\x1f\x8b\x08", 2: _XERIAL, 3: _LZ4_MAGIC, 4: b"\x28\xb5\x2f\xfd"}
_STREAMS = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}
_BUFFER_FULL = "failed to write whole buffer"  # the error text of cramjam's Rust library


class _Undecodable(ValueError):
    """Decompression failed; the caller adds the offset."""


def codec_name(attributes: int) -> str:
    """Return the codec in the attributes of a batch or message; ``unknown(5)`` for an undefined number."""
    codec = attributes & 7
    return CODECS[codec] if codec < len(CODECS) else f"unknown({codec})"


class Decompressor:
    """Decompresses the payloads of one call, to at most `limit` bytes in total.

    Buffers grow with the actual output, so a size claimed in a header costs nothing. Failed attempts count as output,
    so many small bombs take no longer than one.

    Attributes:
        allowance: The work left for records; None if only `limit` bounds it.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT, allowance: Allowance | None = None) -> None:
        self.limit = self.left = limit
        self.allowance = allowance

    def decompress(self, codec: int, data: bytes, *, offset: int, magic: int = 2) -> bytes:
        """Decompress `data`; `magic` is the format of its batch.

        Raises:
            DecodeError: The data does not match the codec, is truncated, or exceeds the limit. It has `offset` and no
                path.
        """
        left_before = self.left
        try:
            if codec == 2:
                return self._decompress_snappy(data)
            if codec == 3 and magic == 0:
                data = repair_lz4_header(data)
            if codec in _STREAMS:
                return self._decompress_stream(codec, data)
        except _Undecodable as error:
            raise DecodeError(str(error), offset=offset) from None
        finally:
            if self.allowance is not None:
                self.allowance.charge_bytes(left_before - self.left)
        raise DecodeError(f"compression codec {codec} does not exist", offset=offset)

    def charge_records(self, count: int, *, offset: int) -> None:
        """Charge records against the limit.

        Raises:
            DecodeError: The limit is exceeded. It has `offset` and no path.
        """
        try:
            self._charge(count * _RECORD_COST)
        except _Undecodable:
            raise DecodeError(f"too many records for the {self.limit} bytes allowed", offset=offset) from None

    def _charge(self, cost: int) -> None:
        if cost > self.left:
            self.left = 0
            raise _Undecodable(f"decompresses to more than the {self.limit} bytes allowed")
        self.left -= cost

    def _decompress_stream(self, codec: int, data: bytes) -> bytes:
        capacity = min(self.left, max(4096, 8 * len(data)))
        while True:
            out = bytearray(capacity)
            try:
                size = _STREAMS[codec].decompress_into(data, out)
            except cramjam.DecompressionError as error:
                if str(error) != _BUFFER_FULL:
                    self._charge(capacity)
                    reason = str(error).removeprefix("lz4: ").removeprefix("LZ4 error: ")  # it differs between releases
                    raise _Undecodable(f"not {CODECS[codec]}: {reason}") from None
                if capacity == self.left:
                    self._charge(capacity + 1)
                capacity = min(self.left, 4 * capacity)
            else:
                self._charge(size)
                return bytes(memoryview(out)[:size])

    def _decompress_snappy(self, data: bytes) -> bytes:
        """Decompress raw snappy, or blocks after the header of snappy-java (xerial), which Kafka's clients write."""
        if not data.startswith(_XERIAL):
            return bytes(self._decompress_snappy_block(data))
        out = bytearray()
        pos = len(_XERIAL_HEADER)
        while pos < len(data):
            size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            pos += 4
            if not 0 <= size <= len(data) - pos:
                remaining = max(len(data) - pos, 0)
                raise _Undecodable(f"not snappy: block of {size} bytes does not fit, {remaining} left")
            out += self._decompress_snappy_block(data[pos : pos + size])
            pos += size
        return bytes(out)

    def _decompress_snappy_block(self, block: bytes) -> bytearray:
        try:
            size = cramjam.snappy.decompress_raw_len(block)
            if size > _SNAPPY_RATIO * len(block):
                raise _Undecodable(f"not snappy: {len(block)} bytes cannot stand for the {size} claimed")
            self._charge(size)
            out = bytearray(size)
            cramjam.snappy.decompress_raw_into(block, out)
        except cramjam.DecompressionError as error:
            raise _Undecodable(f"not {error}") from None
        return out


def detect_codec(data: bytes) -> tuple[int, bytes] | None:
    """Return the codec whose magic the data begins with, and the magic; None for other data, such as raw snappy."""
    return next(((codec, magic) for codec, magic in _MAGICS.items() if data.startswith(magic)), None)


def snappy_versions(data: bytes) -> tuple[int, int] | None:
    """Return the version and lowest compatible version in the header of snappy-java; None for raw snappy.

    snappy-java writes 1 and 1, big-endian. Some clients treat anything else as raw snappy.
    """
    header = data[: len(_XERIAL_HEADER)]
    if not header.startswith(_XERIAL) or len(header) < len(_XERIAL_HEADER):
        return None
    version, lowest_compatible = struct.unpack(">II", header[len(_XERIAL) :])
    return version, lowest_compatible


def compress(codec: int, data: bytes, *, magic: int = 2) -> bytes:
    """Compress `data` as Kafka's clients do in a batch or message of format `magic`."""
    if codec == 1:
        return bytes(cramjam.gzip.compress(data, level=6))
    if codec == 2:
        blocks = (data[pos : pos + _XERIAL_BLOCK] for pos in range(0, len(data), _XERIAL_BLOCK))
        compressed_blocks = (bytes(cramjam.snappy.compress_raw(block)) for block in blocks)
        return _XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in compressed_blocks)
    if codec == 3:
        # Kafka reads only independent blocks.
        compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        compressor.compress(data)
        framed = bytes(compressor.finish())
        return _lz4_with_checksum(framed, from_magic=True) if magic == 0 else framed
    return bytes(cramjam.zstd.compress(data, level=3))


def repair_lz4_header(data: bytes) -> bytes:
    """Return an lz4 frame with the header checksum that the lz4 format requires.

    In message format 0, clients also included the frame's magic in the checksum, and Kafka does not check it there
    (KAFKA-3160).
    """
    return _lz4_with_checksum(data, from_magic=False)


def _lz4_with_checksum(data: bytes, *, from_magic: bool) -> bytes:
    if not data.startswith(_LZ4_MAGIC) or len(data) < 7:
        return data
    flags = data[4]
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    checksum = _xxh32_short(data[0 if from_magic else 4 : end]) >> 8 & 0xFF
    return data[:end] + bytes([checksum]) + data[end + 1 :]


def _xxh32_short(data: bytes) -> int:
    """Return XXH32 with seed 0 of fewer than 16 bytes, which suffices for lz4 headers."""
    value = 374761393 + len(data)
    lanes_end = len(data) & ~3
    for (lane,) in struct.iter_unpack("<I", data[:lanes_end]):
        value = _rotate_left(value + lane * 3266489917, 17) * 668265263
    for byte in data[lanes_end:]:
        value = _rotate_left(value + byte * 374761393, 11) * 2654435761
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * 2246822519 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 3266489917 & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate_left(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return value << bits | value >> 32 - bits
