"""Rules over the lines of a fleet, which need days of traffic or many connections: one file each.

`dissectors.rules.offline` has their codes, names and severities.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.rules.offline import FLEET_RULES, OfflineRule
from kproxy.spark.derived.clusters import with_cluster

Find = Callable[[DataFrame], DataFrame]

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


@dataclass(frozen=True, slots=True)
class Fleet:
    """A rule over a whole fleet: its definition, its hint, and the function that finds it."""

    rule: OfflineRule
    hint: str
    find: Find

    def findings(self, lines: DataFrame) -> DataFrame:
        """Return its findings in rows of TABLE, one row each, like findings of a trace.

        Returns:
            cluster, severity, code, name, client, broker (null for none or several), findings (a count), first_at,
            last_at, message, blame, hint, expected, got and connection_id (an example).
        """
        same = {name: F.lit(getattr(self.rule, name)) for name in ("code", "name", "blame")}
        same |= {"severity": F.lit(self.rule.severity.value), "hint": F.lit(self.hint)}
        return self.find(with_cluster(lines)).withColumns(same).select(
            "cluster", "severity", "code", "name", "client", "broker", "findings", "first_at", "last_at", "message",
            "blame", "hint", "expected", "got", "connection_id",
        )  # fmt: skip


_FOUND: Final[dict[str, Fleet]] = {}


def rule(code: str, *, hint: str) -> Callable[[Find], Find]:
    """Register the function for a rule of `FLEET_RULES`: from rows of TABLE to rows of `finding_rows`."""

    def register(find: Find) -> Find:
        known = _BY_CODE[code]
        if find.__name__.replace("_", "-") != known.name or code in _FOUND:
            raise ValueError(f"{find.__name__} is not the one way to find {code}, {known.name}")
        _FOUND[code] = Fleet(known, hint, find)
        return find

    return register


@cache
def rules() -> tuple[Fleet, ...]:
    """Return all rules, by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_FOUND[code] for code in sorted(_FOUND))


def finding_rows(found: DataFrame, **columns: Column) -> DataFrame:
    """Select a rule's columns: from `found`, or those given; null if neither has one."""
    have = {name: F.col(name) for name in found.columns} | columns
    nothing = F.lit(None).cast("string")
    return found.select(*(have.get(name, nothing).alias(name) for name in _FINDING_COLUMNS))


def when(at: str = "ts") -> list[Column]:
    """Aggregates that every rule has: count, first and last time, and the last connection."""
    return [
        F.count("*").alias("findings"),
        F.min(at).alias("first_at"),
        F.max(at).alias("last_at"),
        F.max(F.struct(at, "connection_id"))["connection_id"].alias("connection_id"),
    ]


def message(template: str, *values: Column | str) -> Column:
    """A message with the values of columns, as in `format_string`; null parts become ``null``."""
    return F.format_string(template, *(F.col(each) if isinstance(each, str) else each for each in values))
