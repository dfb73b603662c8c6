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


def make_cluster(**options: Any) -> Cluster:
    """Return a cluster without brokers."""
    return Cluster(BrokerOptions(**options), {})


def new_log(cluster: Cluster | None = None) -> Log:
    """Return an empty log in its first leader epoch."""
    result = Log(cluster or make_cluster(), "t", "topic-id", 0)
    result.begin_epoch(0)
    return result


def produced_batch(count: int = 1, *, at: int = NOW, key: bytes | None = b"k", size: int = 1, **batch: Any) -> bytes:
    """Return a batch as a producer sends it, with records one millisecond apart."""
    records = [{"key": key, "value": b"v" * size, "timestamp": at + index} for index in range(count)]
    return encode([{"records": records, **batch}])


def write(log: Log, data: bytes, settings: LogSettings = SETTINGS, now: int = NOW) -> AppendResult:
    """Append the data that a client sent."""
    return append(log, memoryview(data), settings, now)


def records(log: Log, offset: int = 0) -> list[dict[str, Any]]:
    """Return every record from an offset on; check that each batch has a valid CRC."""
    result = []
    for stored in log.batches(offset, log.end_offset):
        [batch] = decode(stored.data)
        assert batch["crc_valid"]
        assert "error" not in batch
        result += batch["records"]
    return [record for record in result if record["offset"] >= offset]
