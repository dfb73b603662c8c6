"""Decompression bombs for an existing topic are refused quickly and in little memory."""

from __future__ import annotations

import gzip
import time
import tracemalloc

import cramjam
import google_crc32c
import pytest

from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.compression import CODECS
from dissectors.records.encode import encode
from kproxy.broker.errors import Error
from tests.kproxy.broker.data_requests import produce
from tests.kproxy.broker.socket_client import broker_client

SIZE = 128 << 20
COMPRESSORS = {
    "gzip": lambda data: gzip.compress(data, 1),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}


def bomb(codec: str, size: int) -> bytes:
    """Return a batch whose only record decompresses to `size` zeros."""
    result = bytearray(encode([{"records": [{"key": None, "value": b"x"}]}])[: HEADER.size])
    result[22] = CODECS.index(codec)
    result += COMPRESSORS[codec](bytes(size))
    result[8:12] = (len(result) - 12).to_bytes(4, "big")
    result[17:21] = google_crc32c.value(bytes(result[CRC_START:])).to_bytes(4, "big")
    return bytes(result)


@pytest.mark.parametrize("codec", COMPRESSORS)
async def test_rejects_a_decompression_bomb_quickly_in_little_memory(codec: str) -> None:
    data = bomb(codec, SIZE)
    async with broker_client(topics={"t": 1}) as client:
        tracemalloc.start()
        started_at = time.process_time()
        response = await produce(client, data)
        cpu_seconds = time.process_time() - started_at
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert response["error_code"] != Error.NONE
        response = await produce(client, encode([{"records": [{"key": None, "value": b"x"}]}]))
        assert response["error_code"] == Error.NONE
    assert cpu_seconds < 3
    assert peak < 160 << 20
