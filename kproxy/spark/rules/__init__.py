"""Rules over the lines of a fleet, which need days of traffic or many connections; each has its own file.

Their codes, names and severities are in `dissectors.rules.offline`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.rules.offline import FLEET_RULES, OfflineRule
from kproxy.spark.derived.clusters import with_cluster
from kproxy.spark.derived.rates import BusyCondition, busy_minutes
from kproxy.spark.sentences import lookup

Find = Callable[[DataFrame], DataFrame]
FindBusy = Callable[[], "BusyRule"]

#: The columns of a rule's findings.
_FINDING_COLUMNS: Final = (
    "cluster",
    "client",
    "broker",
    "findings",
    "first_at",
    "last_at",
    "message",
    "expected",
    "got",
    "connection_id",
)
_BY_CODE: Final = {rule.code: rule for rule in FLEET_RULES}


class BusyRule(NamedTuple):
    """A rule about busy minutes of a connection: when it applies, and its message.

    The message uses columns of `kproxy.spark.derived.rates.busy_minutes`.
    """

    busy: BusyCondition
    message: Column


@dataclass(frozen=True, slots=True)
class FleetRule:
    """A rule over a whole fleet: its definition, its hint, and the function that returns its findings.

    `find_busy` is set for rules about busy minutes, which `findings_of` checks together.
    """

    rule: OfflineRule
    hint: str
    find: Find
    find_busy: FindBusy | None = None

    def findings(self, lines: DataFrame) -> DataFrame:
        """Return the rule's findings in rows of TABLE, one row each, like findings in a trace.

        Returns:
            cluster, severity, code, name, client, broker (null for none or several), findings (a count), first_at,
            last_at, message, blame, hint, expected, got and connection_id (an example).
        """
        return _with_rule_columns(self.findings_with_code(with_cluster(lines)))

    def findings_with_code(self, lines: DataFrame) -> DataFrame:
        """Return the rule's findings with `code`, but without the other columns that are equal for all its findings."""
        return self.find(lines).withColumn("code", F.lit(self.rule.code))


_RULES: Final[dict[str, FleetRule]] = {}


def rule(code: str, *, hint: str) -> Callable[[Find], Find]:
    """Register the function for a rule in `FLEET_RULES`; it takes rows of TABLE and returns `finding_rows`."""

    def register(find: Find) -> Find:
        definition = _BY_CODE[code]
        if find.__name__.replace("_", "-") != definition.name or code in _RULES:
            raise ValueError(f"{find.__name__} is not the one way to find {code}, {definition.name}")
        _RULES[code] = FleetRule(definition, hint, find)
        return find

    return register


def busy_rule(code: str, *, hint: str) -> Callable[[FindBusy], FindBusy]:
    """Register the function that defines a rule in `FLEET_RULES` about busy minutes."""

    def register(find_busy: FindBusy) -> FindBusy:
        def find(lines: DataFrame) -> DataFrame:
            return _find_busy(lines, {code: find_busy()}).drop("code")

        find.__name__ = find_busy.__name__
        rule(code, hint=hint)(find)
        _RULES[code] = replace(_RULES[code], find_busy=find_busy)
        return find_busy

    return register


def findings_of(lines: DataFrame) -> DataFrame:
    """Return the findings of all rules, as `FleetRule.findings` does; rules about busy minutes share one pass."""
    lines = with_cluster(lines)
    separate_findings = [rule.findings_with_code(lines) for rule in rules() if rule.find_busy is None]
    busy_rules = {rule.rule.code: rule.find_busy() for rule in rules() if rule.find_busy is not None}
    return _with_rule_columns(reduce(DataFrame.unionByName, [*separate_findings, _find_busy(lines, busy_rules)]))


def _find_busy(lines: DataFrame, busy_rules: Mapping[str, BusyRule]) -> DataFrame:
    frame = busy_minutes(lines, {code: definition.busy for code, definition in busy_rules.items()})
    texts = (F.when(F.col("code") == code, definition.message) for code, definition in busy_rules.items())
    columns = [name for name in _FINDING_COLUMNS if name in frame.columns]
    nulls = [F.lit(None).cast("string").alias(name) for name in ("expected", "got")]
    by_code = frame.withColumnRenamed("name", "code")
    return by_code.select("code", *columns, F.coalesce(*texts).alias("message"), *nulls)


def _with_rule_columns(frame: DataFrame) -> DataFrame:
    """Add the columns that are equal for all findings of a rule, by code."""

    def rule_column(value: Callable[[FleetRule], str]) -> Column:
        return lookup(F.col("code"), {rule.rule.code: value(rule) for rule in rules()})

    return frame.select(
        "cluster", rule_column(lambda fleet: fleet.rule.severity.value).alias("severity"), "code",
        rule_column(lambda fleet: fleet.rule.name).alias("name"), "client", "broker", "findings", "first_at", "last_at",
        "message", rule_column(lambda rule: rule.rule.blame).alias("blame"),
        rule_column(lambda rule: rule.hint).alias("hint"),
        "expected", "got", "connection_id",
    )  # fmt: skip


@cache
def rules() -> tuple[FleetRule, ...]:
    """Return all rules, sorted by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_RULES[code] for code in sorted(_RULES))


def finding_rows(rows: DataFrame, **columns: Column) -> DataFrame:
    """Select the columns of findings from `columns`, else from `rows`; columns that neither has are null."""
    available = {name: F.col(name) for name in rows.columns} | columns
    null = F.lit(None).cast("string")
    return rows.select(*(available.get(name, null).alias(name) for name in _FINDING_COLUMNS))


def occurrence_columns(at: str = "ts") -> list[Column]:
    """Return the aggregates that every rule needs: count, first and last time, and the last connection."""
    return [
        F.count("*").alias("findings"),
        F.min(at).alias("first_at"),
        F.max(at).alias("last_at"),
        F.max(F.struct(at, "connection_id"))["connection_id"].alias("connection_id"),
    ]


def message(template: str, *values: Column | str) -> Column:
    """Return a message with the values of columns, as in `format_string`; null values become ``null``."""
    return F.format_string(template, *(F.col(element) if isinstance(element, str) else element for element in values))
