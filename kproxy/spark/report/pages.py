"""The report as a page of less than a megabyte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from kproxy.html.assemble import page
from kproxy.outputs import rulebook
from kproxy.spark.report.clusters import headlines_by_cluster
from kproxy.spark.report.contents import Figures
from kproxy.spark.report.tables import MOST_ROWS
from kproxy.trace.formatting import safe
from kproxy.version import __version__

#: Most bytes of a page.
MOST_SIZE = 1_000_000
_MOST_SOURCES = 8


def report(figures: Figures, sources: Iterable[str]) -> str:
    """Return a self-contained page of less than `MOST_SIZE` bytes; tables are truncated to fit. `sources` are names."""
    names = [safe(name) for name in sources][:_MOST_SOURCES]
    for halved in range(MOST_ROWS.bit_length() + 1):  # the last attempt has no rows
        data = contents(figures, names, MOST_ROWS >> halved)
        made = page("kproxy: report", data, __package__, ("page.js",))
        if len(made.encode()) < MOST_SIZE:
            break
    return made


def contents(figures: Figures, sources: list[str], most: int = MOST_ROWS) -> dict[str, Any]:
    """Return the data of a page, with at most this many rows per table.

    Returns:
        ``facts``; ``headlines``, each (level, text, table); ``axis``: starts of buckets, their length and the observed
        time of each, in us; ``heat``, ``brokers``, ``errors`` and ``traffic``, the series of
        `kproxy.spark.report.charts`; ``tables``, from `kproxy.spark.report.tables`; ``rules``, name, severity and page
        of those with findings.
    """
    tables = [table.cut(most) for table in figures.tables.values()]
    codes = {row["code"] for table in tables if table.name in ("findings", "rules") for row in table.records()}
    return {
        "version": __version__,
        "sources": sources,
        "facts": asdict(figures.facts),
        "headlines": [[each.level, each.text, each.about] for each in headlines_by_cluster(figures)],
        "axis": {"step_us": figures.axis.step_us, "begins": figures.axis.begins, "observed_us": figures.observed_us},
        **{
            name: [asdict(series) for series in getattr(figures, name)]
            for name in ("heat", "brokers", "errors", "traffic")
        },
        "tables": [asdict(table) for table in tables],
        "rules": {
            entry.code: {"name": entry.name, "severity": entry.severity, "page": entry.page}
            for entry in rulebook.entries()
            if entry.code in codes
        },
    }
