"""The views of a session in browser windows: one for each filter and order, kept while it is used."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final, NamedTuple

from kproxy.browse.rows.visible_rows import Order
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.filters import parse

#: Maximum number of views; a view of a million rows needs 8 MB.
MAX_VIEWS: Final = 24
#: Seconds that an unused view of a live source is kept, as each filters all new rows. Windows ask again as rows arrive.
KEEP_S: Final = 30.0

ORDERS: Final = {
    "time": Order.TIME,
    "latency": Order.LATENCY,
    "size": Order.SIZE,
    "api": Order.API,
    "client": Order.CLIENT,
    "connection": Order.CONNECTION,
    "findings": Order.SEVERITY,
}


class RowQuery(NamedTuple):
    """Selects rows and their order: ``latency`` puts the highest first, ``-latency`` the lowest."""

    text: str = ""
    only_findings: bool = False
    sort: str = "time"


class Views:
    """Views by query. Beyond `MAX_VIEWS`, the least recently used are dropped; a later query creates a new one."""

    def __init__(self, session: BrowseSession) -> None:
        self._session = session
        self._views: OrderedDict[RowQuery, SessionView] = OrderedDict()  # the most recently used last
        self._used_at: dict[RowQuery, float] = {}

    def view(self, query: RowQuery) -> SessionView:
        """Return the view of a query.

        Raises:
            FilterError: The filter is invalid.
        """
        if query == RowQuery():
            return self._session.view
        view = self._views.get(query)
        if view is None:
            view = self._session.new_view()
            view.visible.choose(parse(query.text) if query.text.strip() else None, only_findings=query.only_findings)
            name = query.sort.removeprefix("-")
            view.visible.sort(ORDERS.get(name, Order.TIME), reverse=query.sort.startswith("-"))
            self._views[query] = view
            self._session.views.append(view)
        self._views.move_to_end(query)
        self._used_at[query] = time.monotonic()
        self._drop_unused_views()
        return view

    def _drop_unused_views(self) -> None:
        oldest_allowed = time.monotonic() - KEEP_S if self._session.source.live else 0.0
        while len(self._views) > 1:
            oldest = next(iter(self._views))
            if len(self._views) <= MAX_VIEWS and self._used_at[oldest] >= oldest_allowed:
                return
            self._session.views.remove(self._views.pop(oldest))
            del self._used_at[oldest]

    @property
    def version(self) -> int:
        """A number that changes with the rows of any view, and with their counts."""
        return self._session.version + sum(view.visible.version for view in self._session.views)
