"""The rows of a view as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, Final

from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.html.frame_rows import row_json
from kproxy.trace.timestamps import timestamp

_TITLES: Final = ("time", "connection", "client", "API", "version", "what", "bytes", "latency_us", "error / finding")


def csv_rows(session: BrowseSession, view: SessionView) -> Iterator[bytes]:
    """Yield lines of CSV. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    yield _line(_TITLES)
    for at in range(len(view.visible)):
        row = view.visible[at]
        if (exchange := session.exchange(row)) is None:
            continue
        _, us, connection, client, api, version, what, size, latency, _, wrong, _, kind, *_ = row_json(
            session, exchange, row
        )
        said = " ".join(text for text, _ in wrong)
        yield _line((timestamp(us * 1000), connection, client, api or kind, version, what, size, latency, said))


def _line(values: tuple[Any, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow([f"'{each}" if str(each).startswith(("=", "+", "-", "@")) else each for each in values])
    return text.getvalue().encode()
