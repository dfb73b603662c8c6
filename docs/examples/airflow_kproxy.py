"""An Airflow 3 DAG: each night, convert new traces, then write the tables of the day before.

Copy it to the DAG folder. The machine of the worker needs kproxy with the extra `analytics` or `spark`, and these
variables in its environment: KPROXY_TRACES (the traces of the proxies), KPROXY_LINES and KPROXY_TABLES (directories for
the results).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

#: Proxies write a trace file an hour. A file that is still being written at that time is converted the next night.
CONVERT = 'kproxy analyze convert "$KPROXY_TRACES" --out "$KPROXY_LINES"'
#: The same day again replaces its tables. Its hours are compared with those of four weeks before (table anomalies).
TABLES = (
    'kproxy analyze "$KPROXY_LINES" --since {{ macros.ds_add(ds, -1) }} --until {{ ds }} --history 28'
    ' --out "$KPROXY_TABLES/day={{ macros.ds_add(ds, -1) }}"'
)

with DAG(
    "kproxy",
    schedule="30 1 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # Both commands may run again: convert skips files that are in the table, and the tables are replaced.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
):
    convert = BashOperator(task_id="convert", bash_command=CONVERT)
    tables = BashOperator(task_id="tables", bash_command=TABLES)
    convert >> tables
