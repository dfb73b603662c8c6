"""A view of a session: the rows that match a filter, their order, and overviews of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kproxy.browse.overviews.matches import MatchCounter
from kproxy.browse.rows.index import RowIndex
from kproxy.browse.rows.row_filter import row_matcher
from kproxy.browse.rows.store import Store
from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.trace.lines import Line
from kproxy.verdict.causes import Causes

_MIN_SECONDS = 0.001


class SessionView:
    """Follows the index of a session. Several views may share it: each window of a browser has its own filter.

    Args:
        index: All rows.
        store: The store with their lines.
        lines: Returns the lines of a row, without bodies and bytes.
        findings: The causes in all rows.
        note_columns: Returns the columns of a row's note; None if it has none.
    """

    def __init__(
        self,
        index: RowIndex,
        store: Store,
        lines: Callable[[int], Iterable[Line]],
        findings: Causes,
        note_columns: Callable[[int], Mapping[str, Any] | None],
    ) -> None:
        self.visible = VisibleRows(index, lambda row_filter: row_matcher(row_filter, index, store, note_columns))
        self._matching = MatchCounter(index, self.visible, lines, findings)

    @property
    def matching(self) -> MatchCounter | None:
        """Overviews of the rows that match the filter, kept up to date from now on; None if all rows are visible."""
        return self._matching.activate() if self.visible.is_narrowed else None

    @property
    def counted(self) -> tuple[int, int]:
        """Rows counted in `matching`, and rows in total."""
        return self._matching.progress

    def update(self, changed: set[int]) -> None:
        """Process rows of the index that are new or have changed."""
        self.visible.update(changed)
        self._matching.update(changed)

    def work(self, deadline: float) -> tuple[bool, bool]:
        """Filter, sort and count until `time.perf_counter()` reaches the deadline, but at least for a moment.

        Returns:
            Whether anything was counted, and whether work remains.
        """
        unfinished = self.visible.work(max(_MIN_SECONDS, deadline - time.perf_counter()))
        counted, uncounted = self._matching.work(max(_MIN_SECONDS, deadline - time.perf_counter()))
        return counted, uncounted or unfinished
