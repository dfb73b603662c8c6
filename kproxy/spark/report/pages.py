"""The report as a page of less than a megabyte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kproxy.escaping import shell_word
from kproxy.html.assemble import page
from kproxy.outputs import rulebook
from kproxy.spark.report.clusters import headlines_by_cluster
from kproxy.spark.report.contents import Figures
from kproxy.spark.report.tables import MAX_ROWS
from kproxy.trace.formatting import safe
from kproxy.version import __version__

#: The maximum size of a page, in bytes.
MAX_SIZE = 1_000_000
#: The maximum length of the paths in a command; longer ones are replaced by a placeholder.
_MAX_PATHS = 1000


def report(figures: Figures, paths: Iterable[str]) -> str:
    """Return a self-contained page of less than `MAX_SIZE` bytes; tables are truncated to fit.

    `paths` are the traces and captures as the user named them; the page has commands that contain them.
    """
    path_list = list(paths)
    for halvings in range(MAX_ROWS.bit_length() + 1):  # the last attempt has no rows
        data = contents(figures, path_list, MAX_ROWS >> halvings)
        page_text = page("kproxy: report", data, __package__, ("page.js",))
        if len(page_text.encode()) < MAX_SIZE:
            break
    return page_text


def contents(figures: Figures, paths: list[str], max_rows: int = MAX_ROWS) -> dict[str, Any]:
    """Return the data of a page, with at most this many rows per table.

    Returns:
        ``sources``, names of proxies and captures, or of the paths; ``paths``, as words of a command; ``facts``;
        ``headlines``, each as an object; ``axis``: starts of buckets, their length and the observed time of each, in
        us; the series of `kproxy.spark.report.charts`; ``tables``, from `kproxy.spark.report.tables`; ``rules``, the
        name, severity and page of each rule with findings.
    """
    tables = [table.cut(max_rows) for table in figures.tables.values()]
    codes = {row["code"] for table in tables if table.name in ("findings", "rules") for row in table.records()}
    return {
        "version": __version__,
        "sources": [safe(name) for name in _sources(figures, paths)],
        "paths": _command_words(paths),
        "facts": {name: value for name, value in asdict(figures.facts).items() if name != "names"},
        "headlines": [_safe_texts(asdict(headline)) for headline in headlines_by_cluster(figures)],
        "axis": {"step_us": figures.axis.step_us, "begins": figures.axis.begins, "observed_us": figures.observed_us},
        **{
            name: [asdict(series) for series in getattr(figures, name)]
            for name in ("heat", "brokers", "errors", "traffic", "clients", "topics", "lags", "connections")
        },
        "tables": [asdict(table) for table in tables],
        "rules": {
            entry.code: {"name": entry.name, "severity": entry.severity, "page": entry.page}
            for entry in rulebook.entries()
            if entry.code in codes
        },
    }


def _sources(figures: Figures, paths: list[str]) -> Sequence[str]:
    """Return the names of proxies and captures if they outnumber the paths, e.g. directories; else the paths' names."""
    names = figures.facts.names
    return names if len(names) > len(paths) else [Path(path).name or path for path in paths]


def _command_words(paths: list[str]) -> str:
    text = " ".join(map(shell_word, paths))
    return text if len(text) <= _MAX_PATHS else "TRACES"


def _safe_texts(headline: dict[str, Any]) -> dict[str, Any]:
    return {name: safe(value) if isinstance(value, str) else value for name, value in headline.items()}
