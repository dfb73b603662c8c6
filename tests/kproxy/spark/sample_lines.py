"""Build lines for tests of jobs, and convert them to a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dissectors import schemas
from kproxy.spark.ingest.arrow import BatchReader
from kproxy.spark.ingest.convert import with_dates
from kproxy.spark.ingest.schema import ROW
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import (
    CloseLine,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.timestamps import timestamp

#: 2026-11-21T05:00:00Z, the time at which `at` is 0.
BEGIN_NS = 1_795_237_200_000_000_000


def moment(at: float) -> str:
    """Return the timestamp `at` seconds after the beginning."""
    return timestamp(BEGIN_NS + round(at * 1_000_000_000))


def request(api: str = "Fetch", *, at: float = 0, **columns: Any) -> RequestLine:
    """Return a request at `at` seconds, with any columns."""
    return RequestLine(**(_frame(api, at) | columns))


def response(
    api: str | None = "Fetch", *, at: float = 0, latency_us: int | None = 1000, **columns: Any
) -> ResponseLine:
    """Return a response at `at` seconds to a request `latency_us` earlier; pass no API for a SASL token."""
    request_fields = {"request_ts": moment(at - (latency_us or 0) / 1e6), "latency_us": latency_us, "request_size": 50}
    return ResponseLine(**(_frame(api, at) | request_fields | columns))


def open_(*, at: float = 0, **columns: Any) -> OpenLine:
    """Return the line of a connection that begins."""
    return OpenLine(**(_line(at) | _ENDPOINTS | columns))


def close(*, at: float = 0, **columns: Any) -> CloseLine:
    """Return the line of a connection that ends."""
    return CloseLine(**(_line(at) | _ENDPOINTS | columns))


def gap(*, at: float = 0, **columns: Any) -> GapLine:
    """Return a gap, that is, request bytes that were not inspected."""
    return GapLine(**(_line(at) | {"direction": "request", "bytes": 10, "reason": "lost"} | columns))


def finding(code: str, *, at: float = 0, **columns: Any) -> FindingLine:
    """Return a finding about a connection."""
    return FindingLine(**(_line(at) | _finding_fields(code) | columns))


def finding_entry(code: str, **columns: Any) -> FindingEntry:
    """Return a finding about a frame."""
    return FindingEntry(**(_finding_fields(code) | columns))


#: The default endpoints of lines.
_ENDPOINTS = {"client": "10.0.0.9:50000", "server": "10.0.0.1:9092"}


def _line(at: float) -> dict[str, Any]:
    return {"v": 1, "ts": moment(at), "connection_id": "n-1-1"}


def _finding_fields(code: str) -> dict[str, Any]:
    return {"code": code, "name": f"rule-{code.lower()}", "severity": "warning", "message": f"{code} is wrong"}


def _frame(api: str | None, at: float) -> dict[str, Any]:
    fields = {"correlation_id": 1, "client_id": "app", "size": 100, "offset": 0}
    if api is not None:
        api_info = schemas.api_by_name(api)
        assert api_info is not None, api
        fields |= {"api": api, "api_key": api_info.key, "api_version": api_info.max_version}
    return _line(at) | _ENDPOINTS | fields


def table(spark: SparkSession, *lines: Line) -> DataFrame:
    """Return lines as TABLE."""
    encoded_lines = []
    for line in lines:
        encoded = bytearray()
        append_line(line, encoded)
        encoded_lines.append(bytes(encoded))
    return with_dates(
        spark.createDataFrame(pa.Table.from_batches(BatchReader(ROW).read(encoded_lines, "file:/made.jsonl")))
    )
