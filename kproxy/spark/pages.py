"""The jobs as a table in docs/spark.md, and the columns of their tables as docs/tables.md.

``python -m kproxy.spark.pages docs/spark.md`` updates both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kproxy.outputs import doc_tables
from kproxy.spark import jobs
from kproxy.spark.table_columns import described

#: The page about tables, in the same directory as docs/spark.md.
TABLES = "tables.md"

_INTRODUCTION = """# Tables of `kproxy analyze`

The columns of each table of [`kproxy analyze`](spark.md), with Spark's types. Times are in UTC, `µs` are microseconds.
Shares are fractions (0 to 1) in files, and percentages in text.

Each table has another last column, `cluster` (string): the id of [the cluster](spark.md#clusters), or the lowest
address of its servers. Text output omits it if there is only one cluster.
"""


def markdown() -> str:
    """Return the table of jobs, one row per job with its name and its description."""
    rows = "".join(f"| [`{name}`]({TABLES}#{name}) | {jobs.find(name).help} |\n" for name in jobs.names())
    return f"| table | shows |\n|---|---|\n{rows}"


def columns_page() -> str:
    """Return the content of docs/tables.md, with a section per table."""
    return "\n".join([_INTRODUCTION, *map(_section, jobs.names())])


def _section(name: str) -> str:
    table = described(jobs.find(name))
    rows = "".join(
        f"| `{column.name}` | `{column.type}` | {column.unit} | {_markdown(column.meaning)} |\n"
        for column in table.columns
    )
    text = _markdown(f"{table.text}\n\n{table.rows}")
    return f"## {name}\n\n{text}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n{rows}"


def _markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    _document = Path(sys.argv[1])
    _document.write_text(doc_tables.replace_table(_document.read_text(), "jobs", markdown()))
    _document.with_name(TABLES).write_text(columns_page())
