"""Control records: reading their keys, and recognising record data that consists of control batches."""

from __future__ import annotations

import struct
from typing import Any, Final

from dissectors.records.formats import CONTROL, LOG_OVERHEAD

#: Kafka's ControlRecordType.
TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}

_KEY = struct.Struct(">hh")
KEY_SIZE: Final = _KEY.size
_BATCH_HEADER_SIZE: Final = 61


def read_control_key(key: bytes | None) -> dict[str, Any]:
    """Return ``{"type", "version"}``. As in Kafka, unknown types are UNKNOWN; a truncated key has version None."""
    if key is None or len(key) < _KEY.size:
        return {"type": "UNKNOWN", "version": None}
    version, number = _KEY.unpack_from(key)
    return {"type": TYPES.get(number, "UNKNOWN"), "version": version}


def are_all_control_batches(records: bytes | memoryview) -> bool:
    """Whether record data consists of complete control batches of format 2 only."""
    start, end = 0, len(records)
    while start + _BATCH_HEADER_SIZE <= end:
        size = LOG_OVERHEAD + int.from_bytes(records[start + 8 : start + LOG_OVERHEAD], "big", signed=True)
        if size < _BATCH_HEADER_SIZE or records[start + 16] != 2 or not records[start + 22] & CONTROL:
            return False
        start += size
    return start == end
