"""Control records: ends of transactions, and what the KRaft quorum writes about itself."""

from __future__ import annotations

from dissectors.embedded.registry import CONTROL, VERSION, Rows, embedded, lenient
from dissectors.wire.layout import Layout

#: By the record's type; these say their version in their first field.
_QUORUM = {
    "LEADER_CHANGE": "LeaderChangeMessage",
    "SNAPSHOT_HEADER": "SnapshotHeaderRecord",
    "SNAPSHOT_FOOTER": "SnapshotFooterRecord",
    "KRAFT_VERSION": "KRaftVersionRecord",
    "KRAFT_VOTERS": "VotersRecord",
}


@embedded(CONTROL, "key")
def key(data: bytes, _: Rows) -> Layout | None:
    """The version of the scheme, then the type."""
    return lenient("ControlRecordTypeSchema", data, VERSION)


@embedded(CONTROL, "value")
def value(data: bytes, rows: Rows) -> Layout | None:
    """By the type in the record's key.

    Source: Kafka's EndTransactionMarker and ControlRecordUtils; KIP-98, KIP-595, KIP-630, KIP-853.
    """
    kind = rows[-1]["control"]["type"]
    if kind in ("ABORT", "COMMIT"):
        return lenient("EndTxnMarker", data, VERSION)
    return lenient(_QUORUM[kind], data) if kind in _QUORUM else None
