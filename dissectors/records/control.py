"""Decodes the keys of control records."""

from __future__ import annotations

import struct
from typing import Any

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


def control(key: bytes | None) -> dict[str, Any]:
    """``{"type", "version"}``. As in Kafka, unknown types are UNKNOWN; the version is None if the key is too short."""
    if key is None or len(key) < _KEY.size:
        return {"type": "UNKNOWN", "version": None}
    version, number = _KEY.unpack_from(key)
    return {"type": TYPES.get(number, "UNKNOWN"), "version": version}
