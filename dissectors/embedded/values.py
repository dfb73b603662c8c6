"""Decode the record data and payloads of a body in place."""

from __future__ import annotations

from collections.abc import Mapping

from dissectors import records
from dissectors.embedded.locations import EmbeddedLocation, TopicName, embedded_locations, no_topic_name, topic_of
from dissectors.embedded.registry import CONTROL, Reader, Row, Rows, reader_of
from dissectors.messages.secret_fields import SECRET_TOPICS, payload_secrets, redaction_text
from dissectors.records.allowance import RECORD_STEPS, Allowance
from dissectors.records.control import KEY_SIZE as CONTROL_KEY_SIZE
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError

#: The cost of decoding the key and value of a record (`dissectors.records.allowance`).
_PAYLOAD_COST = 100


def expand_struct(
    row: Row,
    locations: tuple[EmbeddedLocation, ...],
    rows: Rows,
    topic_name: TopicName,
    allowance: Allowance | None = None,
) -> Row:
    """Return a copy of a struct with its embedded data decoded, or the same object if it has none."""
    if not locations:
        return row
    expanded_row, rows = dict(row), (*rows, row)
    for location in locations:
        value = row.get(location.name)
        if value is None:
            continue
        if isinstance(value, list):
            expanded_row[location.name] = [
                expand_struct(element, location.children, rows, topic_name, allowance) for element in value
            ]
        elif location.children:
            expanded_row[location.name] = expand_struct(value, location.children, rows, topic_name, allowance)
        elif location.reader:
            _decode_payload(expanded_row, location.name, location.reader, rows, guarded=False)
        else:
            expanded_row[location.name] = _decode_record_data(value, topic_of(rows, topic_name), rows, allowance)
    return expanded_row


def _decode_payload(row: Row, name: str, reader: Reader, rows: Rows, *, guarded: bool) -> None:
    """Decode the bytes of a field in place; if they do not decode, keep them and add an error."""
    data = row[name]
    if isinstance(data, dict | list | str):  # an edit turned it into another field, or diagnosis has decoded it
        return
    try:
        layout = reader(data, rows)
        if layout is None:
            return
        values, end, error, *_ = decode(layout, data)
        if error is not None:
            raise error
    except DecodeError as error:
        row[f"{name}_error"] = str(error)
        return
    payload = {"type": layout.name, **expand_struct(values, embedded_locations(layout), rows, no_topic_name)}
    if end < len(data):
        payload["rest"] = redaction_text(data[end:]) if guarded else data[end:]
    if secret_names := payload_secrets(layout.name, payload["data"]):
        payload["data"] = {**payload["data"], **{key: redaction_text(payload["data"][key]) for key in secret_names}}
    row[name] = payload


def _decode_record_data(
    data: bytes | memoryview, topic: str | None, rows: Rows, allowance: Allowance | None
) -> list[Row] | str:
    batches = records.decode(data, allowance=allowance)
    guarded = topic in SECRET_TOPICS
    if guarded and not _are_intact(batches):
        return redaction_text(data)
    for batch in batches:
        owner = CONTROL if batch.get("is_control") else topic
        readers = {name: reader_of(owner, name) for name in ("key", "value")} if owner else {}
        if guarded or any(readers.values()):
            batch_records = batch.get("records", [])
            if allowance is not None:
                allowance.release(len(batch_records))
            for index, record in enumerate(batch_records):
                if allowance is not None:
                    if allowance.is_spent:
                        drop_last_records(batch, len(batch_records) - index)
                        break
                    allowance.charge(_PAYLOAD_COST + allowance.record_cost - RECORD_STEPS)  # reserves the steps again
                is_not_control = owner == CONTROL and not is_control_record(record, readers, rows)
                _decode_record(record, {} if is_not_control else readers, rows, guarded=guarded)
    return batches


def drop_last_records(batch: Row, count: int) -> None:
    """Remove the last records of a batch, for which no work is left, and count them in ``records_left_out``."""
    if count:
        del batch["records"][-count:]
        left_out_count = batch.get("records_left_out", 0)
        batch["records_left_out"] = None if left_out_count is None else left_out_count + count


def _are_intact(batches: list[Row]) -> bool:
    """Whether all batches are intact. If not, types may be wrong, or the data may be a later piece of a snapshot."""
    complete_batches = batches[:-1] if len(batches) > 1 and "truncated" in batches[-1] else batches
    return all(batch.get("crc_valid") for batch in complete_batches)


def is_control_record(record: Row, readers: Mapping[str, Reader | None], rows: Rows) -> bool:
    """Whether key and value decode completely. A wrong control bit makes any record look like a control record."""
    if len(record["key"] or b"") != CONTROL_KEY_SIZE or record["control"]["type"] == "UNKNOWN":
        return False
    expanded_record = dict(record)
    _decode_record(expanded_record, readers, rows, guarded=False)
    parts = [expanded_record[name] for name in ("key", "value") if expanded_record[name] is not None]
    return all(isinstance(part, dict) and "rest" not in part for part in parts)


def _decode_record(record: Row, readers: Mapping[str, Reader | None], rows: Rows, *, guarded: bool) -> None:
    rows = (*rows, dict(record))
    for name, reader in readers.items():
        if reader and record[name] is not None:
            _decode_payload(record, name, reader, rows, guarded=guarded)
    if guarded:
        for row in (record, *record.get("headers", ())):
            row |= {name: redaction_text(value) for name, value in row.items() if isinstance(value, bytes)}
