"""Findings of the rules over a whole fleet, which need days of traffic or many connections."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.findings import Severity
from kproxy.spark.columns import place_in
from kproxy.spark.jobs import job
from kproxy.spark.rules import rules as fleet_rules


@job("findings of the rules that need many connections or a long time")
def rules(lines: DataFrame) -> DataFrame:
    """Report findings of the rules in `kproxy.spark.rules`, which a proxy's inspector cannot check.

    Args:
        lines: Rows of TABLE.

    Returns:
        As in the job findings: `severity`, `code`, `name`, `client`, `broker` (null for none or several), `findings` (a
        count; the rule defines of what), `first_at`, `last_at`, `message`, and `blame`, `hint`, `expected`, `got` of
        the finding, and `connection_id`, an example. Highest severity first, then by code, most findings first.
    """
    found = reduce(DataFrame.unionByName, (rule.findings(lines) for rule in fleet_rules()))
    return found.orderBy(
        F.desc(place_in(Severity, "severity")), "code", F.desc("findings"), "client", "broker", "message", "cluster"
    )
