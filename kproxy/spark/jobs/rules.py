"""Findings of the rules over a whole fleet, which need days of traffic or many connections."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.findings import Severity
from kproxy.spark.columns import position_in
from kproxy.spark.jobs import job
from kproxy.spark.rules import findings_of


@job("findings of the rules that need many connections or a long time")
def rules(lines: DataFrame) -> DataFrame:
    """Report findings of the rules in `kproxy.spark.rules`, which a proxy's inspector cannot check.

    Args:
        lines: Rows of TABLE.

    Returns:
        As in the table findings. Highest severity first, then by code, most findings first.

        - severity (string): of the rule
        - code (string): the code of the rule
        - name (string): its name
        - client (string): the client; null for none or several
        - broker (string): the address of the broker; null for none or several
        - findings (bigint, findings): a count; the rule defines of what
        - first_at (timestamp, UTC): the first one
        - last_at (timestamp, UTC): the last one
        - message (string): of the finding
        - blame (string): the side at fault
        - hint (string): what to do
        - expected (string): the expected value
        - got (string): the actual value
        - connection_id (string): an example
    """
    return findings_of(lines).orderBy(
        F.desc(position_in(Severity, "severity")), "code", F.desc("findings"), "client", "broker", "message", "cluster"
    )
