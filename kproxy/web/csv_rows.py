"""Rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kproxy.browse.session import BrowseSession
from kproxy.html.frame_rows import row_json
from kproxy.trace.timestamps import timestamp

_TITLES: Final = ("time", "connection", "client", "API", "version", "what", "bytes", "latency_us", "error / finding")


def csv_rows(session: BrowseSession, rows: Iterable[int]) -> Iterator[bytes]:
    """Yield lines of CSV. A text that a spreadsheet would interpret as a formula gets a leading apostrophe."""
    yield _csv_line(_TITLES)
    for row in rows:
        if (exchange := session.exchange(row)) is None:
            continue
        _, us, connection, client, api, version, subject, size, latency, _, problems, _, kind, *_ = row_json(
            session, exchange, row
        )
        problem_text = " ".join(text for text, _ in problems)
        yield _csv_line(
            (timestamp(us * 1000), connection, client, api or kind, version, subject, size, latency, problem_text)
        )


def _csv_line(values: tuple[Any, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow([f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell for cell in values])
    return text.getvalue().encode()
