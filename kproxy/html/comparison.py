"""The differences of two traces as an HTML page without scripts."""

from __future__ import annotations

import html
from itertools import groupby
from pathlib import Path
from typing import Final

from kproxy.comparison.compare import TrafficComparison, TrafficDifference
from kproxy.html.assemble import static_page
from kproxy.outputs.comparison_report import amount, places, summary, title, values
from kproxy.trace.formatting import safe

_STYLE: Final = """
:root { color-scheme: light dark; --line: light-dark(#ccc, #444); --dim: light-dark(#666, #999) }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; table-layout: fixed }
th, td { border: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere }
td { font-family: ui-monospace, monospace; font-size: 13px }
.dim { color: var(--dim) }
"""


def comparison_page(compared: TrafficComparison) -> str:
    """The page: a table per aspect, then the notes. It loads nothing, and does not disclose the files' directories."""
    names = [safe(Path(each.name).name) for each in (compared.a, compared.b)]
    heading = " and ".join(names)
    tables = "".join(
        f"<h2>{html.escape(aspect)}</h2>\n<table><tr><th>where<th>A<th>B<th>first at</tr>\n"
        f"{''.join(map(_row, group))}</table>\n"
        for aspect, group in groupby(compared.differences, lambda each: each.aspect)
    )
    notes = "".join(f"<li>{html.escape(safe(each))}</li>\n" for each in compared.notes)
    body = (
        f"<body>\n<h1>{html.escape(heading)}</h1>\n"
        f"<p>A is {html.escape(names[0])}: {amount(compared.a)}.<br>"
        f"B is {html.escape(names[1])}: {amount(compared.b)}.</p>\n"
        f"<p>{html.escape(summary(compared))}</p>\n{tables}<ul class=dim>\n{notes}</ul>\n</body>\n</html>\n"
    )
    return static_page(f"kproxy diff: {heading}", _STYLE, body)


def _row(difference: TrafficDifference) -> str:
    cells = (title(difference), *values(difference), places(difference).removeprefix("first at "))
    return f"<tr>{''.join(f'<td>{html.escape(each)}' for each in cells)}</tr>\n"
