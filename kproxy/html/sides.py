"""One side of an exchange for a page: its fields as rows, bytes, findings and records."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dissectors.messages.value_annotations.times import LAST_MS, utc
from dissectors.refusals import judgement
from kproxy.browse.fields.detail import FrameDetail
from kproxy.browse.fields.field import MORE, FieldView
from kproxy.browse.fields.frames import topic_names
from kproxy.browse.fields.records import Record, RecordPart, record_fields, records
from kproxy.html.matching_records import RecordTest
from kproxy.outputs.findings import notes
from kproxy.trace.formatting import safe
from kproxy.trace.lines import ErrorEntry, FindingEntry, RequestLine, ResponseLine

#: Limits per side: fields, elements of an array, bytes, records of a field, records, characters of a value, errors.
MAX_FIELDS = 1_500
MAX_ELEMENTS = 100
MAX_BYTES = 32 << 10
MAX_RECORDS = 50
MAX_TOTAL_RECORDS = 200
MAX_TEXT = 2_000
MAX_ERRORS = 5
#: Maximum number of records of a field that are tested to find those to show.
_MAX_TESTED_RECORDS = 5_000

_MAX_DEPTH = 60

#: Fields that name the topic or the partition of records; they are among the first of their struct.
_LOCATION_FIELDS = {"name": "topic", "topic": "topic", "topic_id": "topic", "index": "partition",
                    "partition": "partition",
           "partition_index": "partition"}  # fmt: skip
_MAX_LEAVES = 4


def side_json(side: FrameDetail, response: ResponseLine | None = None) -> dict[str, Any]:
    """Return everything that a page shows of a side; `response` is the response to a request.

    ``errors`` are ``[name, field, nature, meaning, change]``, those of a response with `dissectors.refusals`.
    ``fields`` are ``[depth, name, kind, text, meaning, start, end]``, parents before their children; ``marks`` are the
    numbers of the findings' fields, null if there is none; ``records`` are ``{"path", "topic", "partition", "rows",
    "more", "problems"}``, topic and partition null if unknown, with rows of ``[offset, time, key, value, headers,
    field]``; a key or value is ``[form, text, size, schema id,
    cut]``. Offsets are text, because JavaScript numbers cannot hold 64 bits; null if unknown.
    """
    result: dict[str, Any] = {
        "missing": _safe_or_none(side.missing),
        "error": _safe_or_none(side.error),
        "deviation": _safe_or_none(side.deviation),
    }
    if side.frame is not None:
        result["frame"] = base64.b64encode(side.frame[:MAX_BYTES]).decode("ascii")
    numbers: dict[int, int] = {}
    result["fields"] = list(_field_rows(side.fields, numbers))
    result["marks"] = [
        _last_number(side.find(finding.path), numbers) if finding.path else None for finding in side.findings
    ]
    result["errors"] = _errors(side, numbers)
    result["records"] = side_records(side, numbers, response=response)
    return {name: value for name, value in result.items() if value is not None}


def _errors(side: FrameDetail, numbers: dict[int, int]) -> list[list[Any]] | None:
    if not isinstance(side.line, ResponseLine):
        return None
    first_entries: dict[int, ErrorEntry] = {}
    for entry in side.line.errors:
        first_entries.setdefault(entry.code, entry)
    errors: list[list[Any]] = []
    for code, entry in islice(first_entries.items(), MAX_ERRORS):
        error = judgement(side.line.api or "", code)
        field = _last_number(side.find(entry.path), numbers)
        errors.append([safe(entry.name), field, error.nature, error.meaning, error.change])
    return errors or None


def side_records(
    side: FrameDetail,
    numbers: dict[int, int] | None = None,
    is_shown: RecordTest | None = None,
    response: ResponseLine | None = None,
) -> list[dict[str, Any]]:
    """Return the ``records`` of a side; `numbers` are those of its fields, by identity.

    With `is_shown`, only records that pass this test count, and fields without any are left out. The records of a
    Produce request have the offsets that its `response` assigns, null if it is unknown which.
    """
    is_produce = isinstance(side.line, RequestLine) and side.line.api_key == 0
    remaining = MAX_TOTAL_RECORDS
    result: list[dict[str, Any]] = []
    for field in record_fields(side.fields):
        if remaining <= 0 or (numbers is not None and id(field) not in numbers):
            break
        max_records = min(remaining, MAX_RECORDS)
        records_view = records(field, max_records if is_shown is None else _MAX_TESTED_RECORDS)
        shown_records = records_view.records
        if is_shown is not None:
            shown_records = list(islice(filter(is_shown, shown_records), max_records))
            if not shown_records:
                continue
        remaining -= len(shown_records)
        location = _topic_partition(side, field)
        cells = [_record_cells(record) for record in shown_records]
        if is_produce:
            base_offset = _assigned_offset(location, response) if len(field.children) == 1 else None
            first_offset = records_view.records[0].offset if records_view.records else None
            for record, row in zip(shown_records, cells, strict=True):
                row[0] = _offset_text(record.offset, first_offset, base_offset)
        rows = [
            [*row, _last_number([field, record.batch, record.field], numbers or {})]
            for record, row in zip(shown_records, cells, strict=True)
        ]
        result.append(
            {
                "path": safe(field.path),
                **location,
                "rows": rows,
                "more": records_view.more,
                "problems": [safe(problem) for problem in records_view.problems],
            }
        )
    return result


def _topic_partition(side: FrameDetail, field: FieldView) -> dict[str, Any]:
    """Return the topic and the partition that the records of a field belong to, from the fields around it."""
    topic_partition: dict[str, Any] = {"topic": None, "partition": None}
    names = topic_names(side.line)
    for ancestor in side.find(field.path)[:-1]:
        for leaf in ancestor.children[:_MAX_LEAVES]:
            if leaf.value is None or (name := _LOCATION_FIELDS.get(leaf.name)) is None:
                continue
            topic_partition[name] = (
                safe(names.get(str(leaf.value)) or str(leaf.value)) if name == "topic" else leaf.value
            )
    return topic_partition


def _assigned_offset(location: dict[str, Any], response: ResponseLine | None) -> int | None:
    """Return the base offset that a Produce response assigns to the batch of a partition."""
    for entry in () if response is None else response.topics:
        if location["topic"] in (safe(entry.topic or ""), entry.topic_id) and len(entry.offsets) == len(
            entry.partitions
        ):
            return dict(zip(entry.partitions, entry.offsets, strict=True)).get(location["partition"])
    return None


def _offset_text(offset: int | None, first_offset: int | None, base_offset: int | None) -> str | None:
    if offset is None or first_offset is None or base_offset is None or base_offset < 0:
        return None
    return str(base_offset + offset - first_offset)


def finding_json(finding: FindingEntry) -> dict[str, Any]:
    """Return a finding as text."""
    result = {
        "severity": finding.severity,
        "code": safe(finding.code),
        "name": safe(finding.name),
        "message": safe(finding.message),
        "path": _safe_or_none(finding.path),
        "span": finding.span,
        "notes": [[name, safe(text)] for name, text in notes(finding)],
    }
    return {name: value for name, value in result.items() if value is not None}


def _field_rows(fields: list[FieldView], numbers: dict[int, int]) -> Iterator[list[Any]]:
    """Yield the fields in frame order as far as they fit; store the number of each in `numbers`."""
    pending = [(0, field) for field in reversed(fields)]
    count = 0
    while pending:
        depth, field = pending.pop()
        if count == MAX_FIELDS:
            yield [0, "…", "", "omitted to limit the page's size", "", field.start, None]
            return
        numbers[id(field)] = count
        count += 1
        span = [field.start, field.end]
        yield [depth, safe(field.name), safe(field.kind), field.text, safe(field.meaning or ""), *span]
        if field.kind == MORE or field.is_leaf or depth == _MAX_DEPTH:
            continue
        children = field.children
        if len(children) > MAX_ELEMENTS:
            first_omitted = children[MAX_ELEMENTS]
            total = len(children) if field.count is None else field.count
            omitted = FieldView("…", field.path,
                                None if first_omitted.start is None else (first_omitted.start, field.end or 0),
                                kind=MORE, count=total - MAX_ELEMENTS)  # fmt: skip
            children = [*children[:MAX_ELEMENTS], omitted]
        pending += [(depth + 1, node) for node in reversed(children)]


def _last_number(chain: list[FieldView], numbers: dict[int, int]) -> int | None:
    """Return the number of the last field on a path that the page contains."""
    return next((numbers[id(field)] for field in reversed(chain) if id(field) in numbers), None)


def _record_cells(record: Record) -> list[Any]:
    timestamp = record.timestamp
    time_text = utc(timestamp) if timestamp is not None and 0 <= timestamp <= LAST_MS else None
    headers = [[safe(name), _part_cells(value)] for name, value in record.headers[:MAX_ELEMENTS]]
    return [str(record.offset), time_text, _part_cells(record.key), _part_cells(record.value), headers]


def _part_cells(part: RecordPart) -> list[Any]:
    is_cut = part.cut or len(part.text) > MAX_TEXT
    return [part.form, part.text[:MAX_TEXT], part.size, part.schema_id, is_cut]


def _safe_or_none(text: str | None) -> str | None:
    return None if text is None else safe(text)
