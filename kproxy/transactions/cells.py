"""The table of transactions for the terminal and the page: its columns, and the text and style of each cell."""

from __future__ import annotations

from typing import Final, NamedTuple

from kproxy.trace.formatting import duration, safe
from kproxy.transactions.rows import TransactionRow, TransactionStatus

_STYLES: Final = {TransactionStatus.ONGOING: "warning", TransactionStatus.COMPLETE_COMMIT: "response"}

COLUMNS: Final = (
    "transactional id", "producer", "client", "state", "open", "timeout", "partitions", "commits", "aborts", "fenced",
    "longest", "what is wrong",
)  # fmt: skip


class StyledText(NamedTuple):
    """A text and the name of its style, which is empty for none."""

    text: str
    style: str = ""


def cells(row: TransactionRow, now: int) -> tuple[StyledText, ...]:
    """Return the cells of a row at time `now` (ns), in the order of `COLUMNS`."""
    return (
        StyledText(safe(row.key) or "(empty)", "name"),
        StyledText(f"{row.producer_id}/{row.producer_epoch}" if row.producer_id >= 0 else ""),
        StyledText(safe(row.client_id), "dim"),
        StyledText(row.state.value, _STYLES.get(row.state, "dim")),
        StyledText(duration((now - row.begun_at) // 1000) if row.begun_at is not None else ""),
        StyledText(duration(row.timeout_ms * 1000) if row.timeout_ms else "", "dim"),
        StyledText(_count_text(len(row.partitions))),
        StyledText(_count_text(row.commits)),
        StyledText(_count_text(row.aborts)),
        StyledText(_count_text(row.fenced), "warning"),
        StyledText(duration(row.longest_ns // 1000) if row.longest_ns else ""),
        StyledText(safe(row.problem(now)), "warning"),
    )


def _count_text(number: int) -> str:
    return f"{number:,}" if number else ""
