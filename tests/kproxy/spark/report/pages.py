"""Hand-made figures for tests of the report page."""

from __future__ import annotations

from typing import Any

from kproxy.spark.report.axis import Axis
from kproxy.spark.report.charts import ChartSeries
from kproxy.spark.report.contents import Figures
from kproxy.spark.report.facts import Facts
from kproxy.spark.report.tables import JobTable

BEGIN_US = 1_795_237_200_000_000  # 2026-11-21T05:00:00Z
_HOUR_US = 3_600_000_000

FACTS = Facts(
    lines=20, requests=10, responses=9, refused=1, wire_bytes=12_345, missed_bytes=0, connections=3, clients=2,
    brokers=1, proxies=1, first_us=BEGIN_US, last_us=BEGIN_US + _HOUR_US,
)  # fmt: skip

#: The columns that the page reads from each table.
COLUMNS = {
    "anomalies": "by api value since:time measure actual:number usual:number sentence",
    "clients": "client software_name software_version api api_version:number hosts:number connections:number "
    "requests:number first_at:time last_at:time verdict refused_from reason",
    "errors": "by value error code:number responses:number share:share first_at:time last_at:time",
    "findings": "severity code name client broker findings:number first_at:time last_at:time message connection_id "
    "direction offset:number at:time",
    "group-stalls": "group_id stall severity since:time until:time duration_us:duration blamed:list sentence look",
    "latency": "by api value responses:number p50_us:duration p90_us:duration p99_us:duration p999_us:duration "
    "max_us:duration",
    "partitions": "topic partition:number written_share:share written_skew:number read_share:share read_skew:number",
    "throttling": "client broker since:time throttled:number total_throttle_us:duration",
}


def listed(name: str, *rows: dict[str, Any], has_more: bool = False) -> JobTable:
    """Return a table with these rows; columns that a row omits are null."""
    columns = [(spec.partition(":")[0], spec.partition(":")[2] or "text") for spec in COLUMNS[name].split()]
    return JobTable(
        name, "what it tells", columns, [[row.get(column) for column, _ in columns] for row in rows], has_more
    )


def figures(*tables: JobTable, name: str = "orders") -> Figures:
    """Return figures with these tables and empty other tables; `name` is used for everything in the charts."""
    tables_by_name = {table.name: table for table in tables}
    return Figures(
        facts=FACTS,
        axis=Axis(_HOUR_US, (BEGIN_US, BEGIN_US + 24 * _HOUR_US)),
        observed_us=[_HOUR_US, _HOUR_US // 4],
        heat=[ChartSeries("", [[0, 12, 3], [1, 13, 6]]), ChartSeries(name, [[0, 12, 3]])],
        brokers=[ChartSeries(name, [[0, 3, 1500.0], [1, 6, 2500.5]])],
        errors=[ChartSeries(name, [[1, 1]])],
        traffic=[ChartSeries("", [[0, 4, 5000], [1, 6, 7345]])],
        clients=[ChartSeries(name, [[0, 900], [1, 400]])],
        topics=[ChartSeries(name, [[0, 90], [1, 40]])],
        lags=[ChartSeries(name, [[1, 40]])],
        connections=[ChartSeries(name, [[0, 3]])],
        tables={job: tables_by_name.get(job) or listed(job) for job in COLUMNS},
    )
