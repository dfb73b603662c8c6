"""Producers and times are changed in batches of format 2, and nothing else."""

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


def other(producer_id: int, epoch: int) -> tuple[int, int]:
    return (70, 5) if (producer_id, epoch) == (7, 1) else (producer_id, epoch)


def test_only_the_producer_and_the_crc_change() -> None:
    before = encode(BATCHES)
    after = replace_producers(memoryview(before), other)
    changed, *kept = decode(after)
    assert (changed["producer_id"], changed["producer_epoch"], changed["crc_valid"]) == (70, 5, True)
    was, *others = decode(before)
    assert kept == others
    assert {name for name in was if was[name] != changed[name]} == {"producer_id", "producer_epoch", "crc"}


def test_a_wrong_crc_stays_wrong() -> None:
    [batch] = decode(replace_producers(encode([{**BATCHES[0], "crc": 1, "crc_valid": False}]), other))
    assert (batch["producer_id"], batch["crc"], batch["crc_valid"]) == (70, 1, False)


def test_times_are_shifted() -> None:
    times = [{"timestamp": 1000, "value": b"a"}, {"timestamp": 1500, "value": b"b"}]
    data = encode([{"records": times}, {"records": [{"value": b"c"}]}])
    dated, undated = decode(shift_times(data, 250))
    assert [record["timestamp"] for record in dated["records"]] == [1250, 1750]
    assert (dated["max_timestamp"], dated["crc_valid"]) == (1750, True)
    assert undated == decode(data)[1]


def test_any_bytes() -> None:
    data = encode(BATCHES)
    chance = random.Random(1)
    for _ in range(200):
        broken = bytearray(data[: chance.randrange(len(data))])
        for _ in range(min(3, len(broken))):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        assert len(shift_times(bytes(broken), 5)) == len(broken)
        assert len(replace_producers(bytes(broken), lambda _, epoch: (1, epoch))) == len(broken)
