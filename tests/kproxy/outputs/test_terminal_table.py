"""Tables adapt to terminals of different widths."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kproxy.outputs.terminal_table import Column, write_columns

SENTENCE = "the coordinator waits for billing-1, which has not joined"
COLUMNS = [
    Column("group id", ["billing", "audit"], number=False),
    Column("error", ["", ""], number=False),
    Column("since", ["2026-11-19 02:00:15", "2026-11-19 02:00:16"], number=False),
    Column("requests per s", ["12", "1,000"], number=True),
    Column("sentence", [SENTENCE, "it is over"], number=False),
    Column("connection id", ["web-1", ""], number=False),
]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def table_text(width: int, columns: list[Column], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    file = _Terminal()
    write_columns("stalls", columns, "and more", file)
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(120, """
stalls

group id  since                requests per s  sentence                                                   connection id
───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
billing   2026-11-19 02:00:15              12  the coordinator waits for billing-1, which has not joined  web-1
audit     2026-11-19 02:00:16           1,000  it is over

and more
""", id="all beside each other"),
        pytest.param(60, """
stalls

group id  since                requests per s  connection id
────────────────────────────────────────────────────────────
billing   2026-11-19 02:00:15              12  web-1
    sentence: the coordinator waits for billing-1, which has
    not joined
audit     2026-11-19 02:00:16           1,000
    sentence: it is over

and more
""", id="what is long below"),
        pytest.param(30, """
stalls

          requests  connection
group id     per s  id
──────────────────────────────
billing         12  web-1
    since: 2026-11-19 02:00:15
    sentence: the coordinator
    waits for billing-1, which
    has not joined
audit        1,000
    since: 2026-11-19 02:00:16
    sentence: it is over

and more
""", id="headings of several lines"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_shown_below_the_row(
    width: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table_text(width, COLUMNS, monkeypatch) == expected


@pytest.mark.slow
@given(st.integers(20, 200), st.lists(st.lists(st.text("ab 🎈漢[]", max_size=40), min_size=2, max_size=2), min_size=1))
def test_all_text_is_shown_within_the_width(width: int, cells: list[list[str]]) -> None:
    columns = [Column(f"the name of {index}", column, index % 2 == 1) for index, column in enumerate(cells)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        text = table_text(width, columns, monkeypatch)
    text_without_spaces = "".join(text.split())
    for column in columns:
        for cell in column.cells:
            assert "".join(cell.split()) in text_without_spaces
    first_width = max(map(cell_len, cells[0]))
    assert all(cell_len(line) <= max(width, first_width) for line in text.splitlines())
