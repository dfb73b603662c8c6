"""Only producers and times are changed, and only in batches of format 2."""

from __future__ import annotations

import random
from typing import Any

from dissectors.records import decode, encode
from dissectors.records.batch_headers import replace_producers, shift_times

BATCHES: list[dict[str, Any]] = [
    {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3, "compression": "gzip", "records": [{"value": b"a"}]},
    {"records": [{"value": b"b"}]},
    {"magic": 1, "records": [{"value": b"c"}]},
]


def replacement_producer(producer_id: int, epoch: int) -> tuple[int, int]:
    return (70, 5) if (producer_id, epoch) == (7, 1) else (producer_id, epoch)


def test_only_the_producer_and_the_crc_change() -> None:
    original_data = encode(BATCHES)
    changed_data = replace_producers(memoryview(original_data), replacement_producer)
    changed_batch, *other_batches = decode(changed_data)
    assert (changed_batch["producer_id"], changed_batch["producer_epoch"], changed_batch["crc_valid"]) == (70, 5, True)
    original, *other_originals = decode(original_data)
    assert other_batches == other_originals
    assert {name for name in original if original[name] != changed_batch[name]} == {
        "producer_id",
        "producer_epoch",
        "crc",
    }


def test_invalid_crc_stays_invalid() -> None:
    [batch] = decode(replace_producers(encode([{**BATCHES[0], "crc": 1, "crc_valid": False}]), replacement_producer))
    assert (batch["producer_id"], batch["crc"], batch["crc_valid"]) == (70, 1, False)


def test_timestamps_are_shifted_in_batches_that_have_them() -> None:
    records = [{"timestamp": 1000, "value": b"a"}, {"timestamp": 1500, "value": b"b"}]
    data = encode([{"records": records}, {"records": [{"value": b"c"}]}])
    shifted, unshifted = decode(shift_times(data, 250))
    assert [record["timestamp"] for record in shifted["records"]] == [1250, 1750]
    assert (shifted["max_timestamp"], shifted["crc_valid"]) == (1750, True)
    assert unshifted == decode(data)[1]


def test_arbitrary_bytes_keep_their_length() -> None:
    data = encode(BATCHES)
    rng = random.Random(1)
    for _ in range(200):
        damaged = bytearray(data[: rng.randrange(len(data))])
        for _ in range(min(3, len(damaged))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        assert len(shift_times(bytes(damaged), 5)) == len(damaged)
        assert len(replace_producers(bytes(damaged), lambda _, epoch: (1, epoch))) == len(damaged)
