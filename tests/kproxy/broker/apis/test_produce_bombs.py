"""Batches of few bytes that decompress to very many, for a topic that exists: refused soon, in little memory."""

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
from tests.kproxy.broker.data_asked import produce
from tests.kproxy.broker.socket_client import asked

SIZE = 128 << 20
PACK = {
    "gzip": lambda data: gzip.compress(data, 1),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}


def bomb(codec: str, size: int) -> bytes:
    """A batch whose one record decompresses to `size` zeros."""
    made = bytearray(encode([{"records": [{"key": None, "value": b"x"}]}])[: HEADER.size])
    made[22] = CODECS.index(codec)
    made += PACK[codec](bytes(size))
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    made[17:21] = google_crc32c.value(bytes(made[CRC_START:])).to_bytes(4, "big")
    return bytes(made)


@pytest.mark.parametrize("codec", PACK)
async def test_a_bomb_into_a_topic_that_exists_is_refused(codec: str) -> None:
    data = bomb(codec, SIZE)
    async with asked(topics={"t": 1}) as ask:
        tracemalloc.start()
        began = time.process_time()
        answer = await produce(ask, data)
        took = time.process_time() - began
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert answer["error_code"] != Error.NONE
        assert (await produce(ask, encode([{"records": [{"key": None, "value": b"x"}]}])))["error_code"] == Error.NONE
    assert took < 3
    assert peak < 160 << 20
