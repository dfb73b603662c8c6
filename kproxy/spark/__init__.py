"""Trace analytics on Spark. The modules in this package import pyspark; no module outside it does.

Programs and notebooks import from here::

    from kproxy.spark import clustered, jobs, open_session, read_table
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kproxy.spark.derived.clusters import clustered
    from kproxy.spark.derived.latency_sketch import percentiles
    from kproxy.spark.derived.record_values import record_values
    from kproxy.spark.derived.unique_ids import with_unique_ids
    from kproxy.spark.ingest.convert import read_table
    from kproxy.spark.ingest.lines import sampled
    from kproxy.spark.session import session as open_session
    from kproxy.spark.source import KproxyDataSource
    from kproxy.spark.table_columns import described

__all__ = [
    "KproxyDataSource",
    "clustered",
    "described",
    "jobs",
    "open_session",
    "percentiles",
    "read_table",
    "record_values",
    "sampled",
    "with_unique_ids",
]

#: The exported names, each with its module and its name there. They are imported on demand, which needs pyspark.
_EXPORTS: Final = {
    "KproxyDataSource": ("kproxy.spark.source", "KproxyDataSource"),
    "clustered": ("kproxy.spark.derived.clusters", "clustered"),
    "described": ("kproxy.spark.table_columns", "described"),
    "open_session": ("kproxy.spark.session", "session"),
    "percentiles": ("kproxy.spark.derived.latency_sketch", "percentiles"),
    "read_table": ("kproxy.spark.ingest.convert", "read_table"),
    "record_values": ("kproxy.spark.derived.record_values", "record_values"),
    "sampled": ("kproxy.spark.ingest.lines", "sampled"),
    "with_unique_ids": ("kproxy.spark.derived.unique_ids", "with_unique_ids"),
}


def __getattr__(name: str) -> Any:
    if name == "jobs":
        return importlib.import_module("kproxy.spark.jobs")
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _EXPORTS[name]
    return getattr(importlib.import_module(module), attribute)
