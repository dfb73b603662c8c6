"""Records as returned by a gateway that stores their fields and rebuilds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dissectors import records
from dissectors.records.schema_ids import PREFIX_SIZE
from dissectors.wire.errors import EncodeError


def _without_schema_ids(record: Mapping[str, Any]) -> dict[str, Any]:
    framed_fields = {name: record[name] for name in ("key", "value") if (record[name] or b"").startswith(b"\0")}
    return {**record, **{name: data[PREFIX_SIZE:] for name, data in framed_fields.items()}}


def _without_headers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, "headers": []}


#: What a gateway may lose, and the function that removes it from a record.
LOSSES: Final[dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "schema_ids": _without_schema_ids,
    "headers": _without_headers,
}


def rebuild_records(data: bytes, loss: str) -> bytes:
    """Return the record data without the lost fields; data that is not made of whole batches stays unchanged."""
    batches = [
        batch
        if batch.get("is_control")
        else {**batch, "records": [LOSSES[loss](record) for record in batch["records"]]}
        for batch in records.decode(data)
        if "records" in batch
    ]
    try:
        return records.encode(batches)
    except EncodeError:
        return data
