"""The jobs: each file here registers one, a pure function from the lines of traces to a table.

In a notebook::

    from kproxy.spark import jobs

    jobs.names()
    jobs.find("latency").run(lines)
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    #: Takes lines as `kproxy.spark.reading.schema.TABLE` has them and gives a table in the order to show it.
    Run = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Job:
    """A job: its name, what it tells in a sentence, and what it does."""

    name: str
    help: str
    run: Run


_JOBS: Final[dict[str, Job]] = {}


def job(help_: str) -> Callable[[Run], Run]:
    """Register a function as the job of its file, which gives it its name: ``slow_exchanges.py`` is slow-exchanges."""

    def register(run: Run) -> Run:
        name = _name(run.__module__.rpartition(".")[2])
        _JOBS[name] = Job(name, help_, run)
        return run

    return register


def names() -> list[str]:
    """The names of all jobs, without loading one: that takes pyspark."""
    return sorted(_name(each.name) for each in pkgutil.iter_modules(__path__))


def find(name: str) -> Job:
    """The job of this name.

    Raises:
        KeyError: There is none.
    """
    if name not in names():
        raise KeyError(name)
    importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return _JOBS[name]


def _name(module: str) -> str:
    return module.replace("_", "-")
