"""The jobs: each file here registers one, a pure function from the lines of traces to a table.

In a notebook::

    from kproxy.spark import jobs

    jobs.names()
    jobs.find("latency").run(lines)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from kproxy.spark.registry import Registered, Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Takes lines as `kproxy.spark.reading.schema.TABLE` has them and gives a table in the order to show it.
Run: TypeAlias = "Callable[[DataFrame], DataFrame]"
Job: TypeAlias = Registered[Run]

_REGISTRY: Final = Registry[Run](__name__, __path__)
job, names, find = _REGISTRY.add, _REGISTRY.names, _REGISTRY.find
