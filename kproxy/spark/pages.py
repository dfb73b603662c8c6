"""The jobs as a table of docs/spark.md.

``python -m kproxy.spark.pages docs/spark.md`` updates it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kproxy.outputs import doc_tables
from kproxy.spark import jobs


def markdown() -> str:
    """Return one row per job: its name and its description."""
    rows = "".join(f"| `{name}` | {jobs.find(name).help} |\n" for name in jobs.names())
    return f"| table | shows |\n|---|---|\n{rows}"


if __name__ == "__main__":
    _document = Path(sys.argv[1])
    _document.write_text(doc_tables.with_table(_document.read_text(), "jobs", markdown()))
