"""The headlines of a report about several clusters, computed for each cluster alone and prefixed with its name."""

from __future__ import annotations

from dataclasses import replace

from kproxy.spark.derived.clusters import CLUSTER
from kproxy.spark.report.contents import Figures
from kproxy.spark.report.headlines import Headline, headlines, urgency
from kproxy.spark.report.tables import JobTable


def headlines_by_cluster(figures: Figures) -> list[Headline]:
    """Return the headlines of a report, most urgent first; if tables name clusters, so does each headline."""
    names = {row[CLUSTER] for table in figures.tables.values() for row in table.records() if row.get(CLUSTER)}
    without_tables = headlines(replace(figures, tables={}))
    if not names:
        return headlines(figures)
    cluster_headlines = [
        replace(headline, text=f"Cluster {name}: {headline.text}", rows={**headline.rows, CLUSTER: name})
        for name in sorted(names)
        for headline in headlines(replace(figures, tables=_tables_of_cluster(figures.tables, name)))
        if headline not in without_tables
    ]
    return sorted(cluster_headlines, key=urgency) or without_tables


def _tables_of_cluster(tables: dict[str, JobTable], cluster: str) -> dict[str, JobTable]:
    """Return the tables with only the rows of one cluster."""
    return {
        name: replace(table, rows=[row for row in table.rows if _cluster_of_row(table, row) == cluster])
        for name, table in tables.items()
    }


def _cluster_of_row(table: JobTable, row: list[object]) -> object:
    return dict(zip([name for name, _ in table.columns], row, strict=True)).get(CLUSTER)
