"""Parses blocks of trace lines with Arrow, much faster than line by line."""

from __future__ import annotations

from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kproxy.spark.ingest.arrow_types import arrow_schema, text_for_times
from kproxy.spark.ingest.schema import TRACE, required_fields
from kproxy.trace.lines import FORMAT, KINDS

_SCHEMA: Final = arrow_schema(TRACE)
#: Times stay text at first: Arrow's JSON reader does not accept times with a zone.
_READ_SCHEMA: Final = text_for_times(_SCHEMA)
_PARSE_OPTIONS: Final = pj.ParseOptions(explicit_schema=_READ_SCHEMA, unexpected_field_behavior="ignore")
_REQUIRED: Final = {kind: required_fields(kind) for kind in KINDS}


def parse_block(block: bytes) -> pa.Table | None:
    """Return the lines of a block as a table with the columns of `TRACE`.

    Return None unless each line is certainly one JSON object whose values fit their types.

    Args:
        block: Lines of JSON, each with its newline.
    """
    # Arrow accepts any whitespace between values. With braces around every newline, each line is exactly one value.
    count = block.count(b"\n")
    if not (block.startswith(b"{") and block.endswith(b"}\n") and block.count(b"}\n{") == count - 1):
        return None
    try:
        block.decode()  # Arrow does not check it
        read_options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        table = pj.read_json(pa.BufferReader(block), read_options=read_options, parse_options=_PARSE_OPTIONS)
        return table.cast(_SCHEMA) if table.num_rows == count and _are_complete_lines(table) else None
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _are_complete_lines(table: pa.Table) -> bool:
    """Whether all rows have a known format, and the required fields of their kind."""
    kinds, versions = table["kind"], table["v"]
    if kinds.null_count or versions.null_count or not set(kinds.unique().to_pylist()) <= KINDS.keys():
        return False
    version = pc.min_max(versions).as_py()
    if version["min"] < 1 or version["max"] > FORMAT:
        return False
    for kind, names in _REQUIRED.items():
        null_masks = [table[name].is_null() for name in names if table[name].null_count]
        if null_masks and pc.any(pc.and_(pc.equal(kinds, kind), reduce(pc.or_, null_masks))).as_py():
            return False
    return True
