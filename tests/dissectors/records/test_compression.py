"""The codecs read what other implementations write, up to a limit."""

import struct
import tracemalloc
import zlib

import cramjam
import pytest

from dissectors.records import decode, encode, walk
from dissectors.records.compression import CODECS, Decompressor, codec_name, compress
from dissectors.wire.errors import DecodeError

TEXT = b"repeat " * 3000
CODEC = pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=CODECS[1:])


def decompress(codec: int, data: bytes, *, limit: int = 1 << 20, magic: int = 2) -> bytes:
    return Decompressor(limit).decompress(codec, data, offset=0, magic=magic)


@CODEC
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 400])
def test_decompression_returns_the_original_data(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@CODEC
def test_decompression_limit_is_exact(codec: int) -> None:
    data = bytes(100_000)
    compressed = compress(codec, data)
    assert decompress(codec, compressed, limit=100_000) == data
    with pytest.raises(DecodeError, match="decompresses to more than the 99999 bytes allowed"):
        decompress(codec, compressed, limit=99_999)


def test_limit_covers_all_payloads_of_a_decompressor() -> None:
    decompressor = Decompressor(150)
    compressed = compress(4, bytes(100))
    decompressor.decompress(4, compressed, offset=0)
    with pytest.raises(DecodeError, match="more than the 150 bytes allowed"):
        decompressor.decompress(4, compressed, offset=17)


@CODEC
@pytest.mark.parametrize("data", [b"", b"junk that is no stream", b"\xff" * 40])
def test_invalid_data_is_an_error_at_the_given_offset(codec: int, data: bytes) -> None:
    with pytest.raises(DecodeError, match=f"not {CODECS[codec]}") as raised:
        Decompressor().decompress(codec, data, offset=61)
    assert raised.value.offset == 61


@CODEC
def test_truncated_stream_is_an_error(codec: int) -> None:
    with pytest.raises(DecodeError, match=f"not {CODECS[codec]}"):
        decompress(codec, compress(codec, TEXT)[:-3])


ZSTD_CLAIMS_2_GB = struct.pack("<IBQ", 0xFD2FB528, 0b11100000, 2 << 30) + b"\x01\x00\x00"
SNAPPY_CLAIMS_2_GB = b"\xff\xff\xff\xff\x07abc"
XERIAL_CLAIMS_2_GB = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"abc"


@pytest.mark.parametrize(("codec", "data"), [(4, ZSTD_CLAIMS_2_GB), (2, SNAPPY_CLAIMS_2_GB), (2, XERIAL_CLAIMS_2_GB)])
def test_claimed_size_is_not_allocated(codec: int, data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=f"not {CODECS[codec]}"):
            decompress(codec, data, limit=4 << 30)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@CODEC
def test_many_decompression_bombs_cost_no_more_than_one(codec: int) -> None:
    bomb = encode([{"compression": CODECS[codec], "records": [{"value": bytes(300_000)}]}])
    batches = decode(bomb * 50, limit=1_000_000)
    assert sum(len(batch["records"]) for batch in batches) == 3
    assert batches[-1]["error"] == "records: decompresses to more than the 1000000 bytes allowed"


def test_tiny_records_count_against_the_limit() -> None:
    data = encode([{"compression": "zstd", "records": [{}] * 5000}])
    assert len(data) < 30_000
    [batch] = decode(data, limit=1_000_000)
    assert batch["error"] == "records: too many records for the 1000000 bytes allowed"
    data = encode([{"magic": 1, "compression": "gzip", "records": [{}] * 5000}])
    [batch] = decode(data, limit=1_000_000)
    allowed = (1_000_000 - 5000 * 34) // 256
    assert batch["error"] == f"value[{allowed}]: too many records for the 1000000 bytes allowed"
    assert len(batch["records"]) == allowed
    error = walk(data, 0, len(data), limit=1_000_000).error
    assert error is not None
    assert (error.path, error.offset) == (("0", "value", str(allowed)), 30)


def test_snappy_is_read_raw_and_in_blocks() -> None:
    assert decompress(2, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    data = TEXT * 5  # more than one block of 32 KiB
    compressed = compress(2, data)
    assert compressed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(2, compressed) == data


def test_gzip_is_compatible_with_zlib() -> None:
    writer = zlib.compressobj(wbits=31)
    compressed = writer.compress(TEXT) + writer.flush()
    assert decompress(1, compressed) == TEXT
    assert zlib.decompress(compress(1, TEXT), wbits=31) == TEXT


def test_lz4_blocks_are_independent_as_kafka_requires() -> None:
    flags = compress(3, TEXT)[4]
    assert flags & 0x20
    assert not flags & 0x04


def test_lz4_header_checksum_of_format_0_is_wrong_as_in_kafka() -> None:
    """0x1a is what Kafka's own class writes for these flags in format 0, 0x82 in format 1."""
    compressed = compress(3, TEXT, magic=0)
    assert decompress(3, compressed, magic=0) == TEXT
    with pytest.raises(DecodeError, match="not lz4"):
        decompress(3, compressed, magic=1)
    assert decompress(3, compress(3, TEXT), magic=0) == TEXT


def test_lz4_header_checksum_covers_the_content_size() -> None:
    compressed = bytes(cramjam.lz4.compress(TEXT))
    with_size = (
        b"\x04\x22\x4d\x18" + bytes([compressed[4] | 0x08, compressed[5]]) + struct.pack("<Q", len(TEXT)) + b"\x00"
    )
    assert decompress(3, with_size + compressed[7 if not compressed[4] & 0x08 else 15 :], magic=0) == TEXT


def test_unknown_codec_is_named_by_its_number() -> None:
    assert [codec_name(attributes) for attributes in (0, 4, 5, 7, 8 | 2)] == [
        "none",
        "zstd",
        "unknown(5)",
        "unknown(7)",
        "snappy",
    ]
