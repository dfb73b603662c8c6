"""The views of a session that windows of browsers have: one for each filter and order, kept while it is used."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from kproxy.browse.rows.text_search import filter_or_text
from kproxy.browse.rows.visible_rows import Order
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView

#: Most views; a view of a million rows needs 8 MB.
MOST_VIEWS: Final = 24

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
    """Which rows, in which order: ``latency`` is the highest first, ``-latency`` the lowest."""

    text: str = ""
    only_findings: bool = False
    sort: str = "time"


class Views:
    """Views by query. Of more than `MOST_VIEWS`, the least recently used are dropped; asking again makes a new one."""

    def __init__(self, session: BrowseSession) -> None:
        self._session = session
        self._views: OrderedDict[RowQuery, SessionView] = OrderedDict()

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
            view.visible.choose(filter_or_text(query.text), only_findings=query.only_findings)
            name = query.sort.removeprefix("-")
            view.visible.sort(ORDERS.get(name, Order.TIME), reverse=query.sort.startswith("-"))
            self._views[query] = view
            self._session.views.append(view)
            if len(self._views) > MOST_VIEWS:
                _, dropped = self._views.popitem(last=False)
                self._session.views.remove(dropped)
        self._views.move_to_end(query)
        return view

    @property
    def version(self) -> int:
        """Changes with the rows of any view, and with what is counted of them."""
        return self._session.version + sum(view.visible.version for view in self._session.views)
