"""A filter of records leaves the records that match it, not all records of the frames that match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.browse.session import BrowseSession
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.registry import SchemaSources
from kproxy.trace.lines import Detail
from kproxy.web import answers
from kproxy.web.views import RowQuery, Views
from tests.kproxy.browse.sessions import read, session_of
from tests.kproxy.capture_results import lines_of
from tests.kproxy.cli.test_payloads import produce, write_capture

#: Filters of records, and the keys of the records that they leave. A browser test evaluates them in the page.
FILTERED: dict[str, list[str]] = {
    "": ["planted-key", "k2", "k3", "k4"],
    "api=Produce": ["planted-key", "k2", "k3", "k4"],
    "key=k4": ["k4"],
    "api=Produce and key=k2": ["k2"],
    "not key=k2": [],  # the frame has such a record
    "not key=k2 or key=k3": ["planted-key", "k3", "k4"],
    "key in (k3, k4)": ["k3", "k4"],
    "value=null": ["k2"],
    "value.id=5": ["k4"],
    "header.trace": ["planted-key"],
    "key=k2 and value.id=5": [],
    "key=k2 or api=Produce": ["planted-key", "k2", "k3", "k4"],
    "without-schema": ["k3"],
    "planted": ["planted-key", "k3", "k4"],
    "orders": ["planted-key", "k2", "k3", "k4"],
}


def records_of(session: BrowseSession, text: str) -> list[Any]:
    """Return the records that the server returns for a filter, as in a side."""
    views = Views(session)
    view = views.view(RowQuery(text))
    read(session)
    found = answers.records(session, view, 0, 500)
    assert found["next"] is None
    return [row for _, fields in found["exchanges"] for field in fields for row in field["rows"]]


@pytest.mark.parametrize(("text", "keys"), FILTERED.items())
def test_only_matching_records_are_returned(text: str, keys: list[str], tmp_path: Path) -> None:
    values = RecordValues(SchemaSources([]), Masks(()))
    path = write_capture(tmp_path / "a.pcap", produce("gzip"))
    session = session_of(lines_of(path, detail=Detail.FULL, record_values=values))
    assert [row[2][1] for row in records_of(session, text)] == keys


def test_text_is_found_in_bytes_that_are_not_decoded(tmp_path: Path) -> None:
    session = session_of(lines_of(write_capture(tmp_path / "a.pcap", produce()), detail=Detail.RAW))
    assert [row[2][1] for row in records_of(session, "without-schema")] == ["k3"]
    assert records_of(session, "key=k4") == []
