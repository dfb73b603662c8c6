"""The rules that need days of traffic or many connections at once, over the lines of traces: a file each.

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

from dissectors.rules.offline import OFFLINE_RULES, OfflineRule
from kproxy.spark.derived.clusters import with_cluster

Find = Callable[[DataFrame], DataFrame]

#: What a rule tells of each thing that it found.
_TOLD: Final = (
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
_BY_CODE: Final = {rule.code: rule for rule in OFFLINE_RULES}


@dataclass(frozen=True, slots=True)
class Fleet:
    """A rule over a whole fleet: what it is called, what to do about it, and how it is found."""

    rule: OfflineRule
    hint: str
    find: Find

    def findings(self, lines: DataFrame) -> DataFrame:
        """What it finds in rows of TABLE, a row each, in the shape of findings of a trace.

        Returns:
            cluster, severity, code, name, client, broker (null where it is about none or several), findings (how
            often), first_at, last_at, message, blame, hint, expected, got and connection_id (an example).
        """
        same = {name: F.lit(getattr(self.rule, name)) for name in ("code", "name", "blame")}
        same |= {"severity": F.lit(self.rule.severity.value), "hint": F.lit(self.hint)}
        return self.find(with_cluster(lines)).withColumns(same).select(
            "cluster", "severity", "code", "name", "client", "broker", "findings", "first_at", "last_at", "message",
            "blame", "hint", "expected", "got", "connection_id",
        )  # fmt: skip


_FOUND: Final[dict[str, Fleet]] = {}


def rule(code: str, *, hint: str) -> Callable[[Find], Find]:
    """Register how a rule of `OFFLINE_RULES` is found: a function from rows of TABLE to rows of `told`."""

    def register(find: Find) -> Find:
        known = _BY_CODE[code]
        if find.__name__.replace("_", "-") != known.name or code in _FOUND:
            raise ValueError(f"{find.__name__} is not the one way to find {code}, {known.name}")
        _FOUND[code] = Fleet(known, hint, find)
        return find

    return register


@cache
def rules() -> tuple[Fleet, ...]:
    """All of them, by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_FOUND[code] for code in sorted(_FOUND))


def told(found: DataFrame, **columns: Column) -> DataFrame:
    """Rows with what a rule tells: columns of `found`, or those given; null where neither has one."""
    have = {name: F.col(name) for name in found.columns} | columns
    nothing = F.lit(None).cast("string")
    return found.select(*(have.get(name, nothing).alias(name) for name in _TOLD))


def when(at: str = "ts") -> list[Column]:
    """Aggregates that every rule has: how often, from when to when, and a connection, the last."""
    return [
        F.count("*").alias("findings"),
        F.min(at).alias("first_at"),
        F.max(at).alias("last_at"),
        F.max(F.struct(at, "connection_id"))["connection_id"].alias("connection_id"),
    ]


def said(template: str, *values: Column | str) -> Column:
    """A sentence with the values of columns in it, as `format_string` has it; null parts read ``null``."""
    return F.format_string(template, *(F.col(each) if isinstance(each, str) else each for each in values))
