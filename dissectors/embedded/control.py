"""Control records: transaction markers, and records of the KRaft quorum."""

from __future__ import annotations

from dissectors.embedded.registry import CONTROL, VERSION, Rows, embedded, payload_at_stated_version
from dissectors.wire.layout import Layout

#: By record type; the first field of these messages is their version.
_QUORUM = {
    "LEADER_CHANGE": "LeaderChangeMessage",
    "SNAPSHOT_HEADER": "SnapshotHeaderRecord",
    "SNAPSHOT_FOOTER": "SnapshotFooterRecord",
    "KRAFT_VERSION": "KRaftVersionRecord",
    "KRAFT_VOTERS": "VotersRecord",
}


@embedded(CONTROL, "key")
def key(data: bytes, _: Rows) -> Layout | None:
    """Return the layout of the schema version and the record type."""
    return payload_at_stated_version("ControlRecordTypeSchema", data, VERSION)


@embedded(CONTROL, "value")
def value(data: bytes, rows: Rows) -> Layout | None:
    """Return the layout that belongs to the type in the record's key.

    Source: Kafka's EndTransactionMarker and ControlRecordUtils; KIP-98, KIP-595, KIP-630, KIP-853.
    """
    kind = rows[-1]["control"]["type"]
    if kind in ("ABORT", "COMMIT"):
        return payload_at_stated_version("EndTxnMarker", data, VERSION)
    return payload_at_stated_version(_QUORUM[kind], data) if kind in _QUORUM else None
