"""Logs and record data for tests."""

from __future__ import annotations

from typing import Any

from dissectors.records import decode, encode
from kproxy.broker.cluster import Cluster
from kproxy.broker.log import Log
from kproxy.broker.log.appending import AppendResult, append
from kproxy.broker.log.settings import LogSettings
from kproxy.broker.options import BrokerOptions

#: When the tests happen, ms.
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
    """An empty log whose first leader has begun."""
    log = Log(owner or cluster(), "t", "topic-id", 0)
    log.begin_epoch(0)
    return log


def sent(count: int = 1, *, at: int = NOW, key: bytes | None = b"k", size: int = 1, **batch: Any) -> bytes:
    """A batch as a client sends it, its records a millisecond apart."""
    records = [{"key": key, "value": b"v" * size, "timestamp": at + index} for index in range(count)]
    return encode([{"records": records, **batch}])


def write(to: Log, data: bytes, settings: LogSettings = SETTINGS, now: int = NOW) -> AppendResult:
    """Append what a client sent."""
    return append(to, memoryview(data), settings, now)


def records(of: Log, offset: int = 0) -> list[dict[str, Any]]:
    """Every record from an offset on, of batches whose CRC is right."""
    found = []
    for kept in of.batches(offset, of.end_offset):
        [batch] = decode(kept.data)
        assert batch["crc_valid"]
        assert "error" not in batch
        found += batch["records"]
    return [record for record in found if record["offset"] >= offset]
