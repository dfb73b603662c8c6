"""Logs and record data for tests."""

from __future__ import annotations

from typing import Any

from dissectors.records import decode, encode
from kproxy.broker.cluster import Cluster
from kproxy.broker.log import Log
from kproxy.broker.log.appending import AppendResult, append
from kproxy.broker.log.settings import LogSettings
from kproxy.broker.options import BrokerOptions

#: The time of the tests, in ms.
NOW = 1_700_000_000_000

SETTINGS = LogSettings(
    max_message_bytes=1_048_588,
    compacted=False,
    deleted=True,
    append_time=False,
    timestamp_before_max_ms=2**63 - 1,
    timestamp_after_max_ms=3_600_000,
    compression_type="producer",
    min_insync_replicas=1,
    retention_bytes=-1,
    retention_ms=-1,
)


def cluster(**options: Any) -> Cluster:
    """A cluster without brokers."""
    return Cluster(BrokerOptions(**options), {})


def log(owner: Cluster | None = None) -> Log:
    """An empty log in its first leader epoch."""
    result = Log(owner or cluster(), "t", "topic-id", 0)
    result.begin_epoch(0)
    return result


def produced_batch(count: int = 1, *, at: int = NOW, key: bytes | None = b"k", size: int = 1, **batch: Any) -> bytes:
    """A batch as a producer sends it, its records a millisecond apart."""
    records = [{"key": key, "value": b"v" * size, "timestamp": at + index} for index in range(count)]
    return encode([{"records": records, **batch}])


def write(log_: Log, data: bytes, settings: LogSettings = SETTINGS, now: int = NOW) -> AppendResult:
    """Append what a client sent."""
    return append(log_, memoryview(data), settings, now)


def records(log_: Log, offset: int = 0) -> list[dict[str, Any]]:
    """Every record from an offset on, of batches whose CRC is right."""
    result = []
    for stored in log_.batches(offset, log_.end_offset):
        [batch] = decode(stored.data)
        assert batch["crc_valid"]
        assert "error" not in batch
        result += batch["records"]
    return [record for record in result if record["offset"] >= offset]
