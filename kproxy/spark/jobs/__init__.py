"""The jobs: each file here registers one, a pure function from the lines of traces to a table.

In a notebook::

    from kproxy.spark import jobs

    jobs.names()
    jobs.find("latency").run(lines)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeAlias

from kproxy.spark.registry import Registered, Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Takes lines as `kproxy.spark.reading.schema.TABLE` has them and gives a table in the order to show it.
Run: TypeAlias = "Callable[[DataFrame], DataFrame]"
Job: TypeAlias = Registered[Run]

_REGISTRY: Final = Registry[Run](__name__, __path__)
job, names, find = _REGISTRY.add, _REGISTRY.names, _REGISTRY.find


def planned(wanted: Iterable[str], lines: DataFrame) -> Iterator[tuple[Job, Callable[[], DataFrame]]]:
    """Jobs by their names, each with what gives its table; while one is worked out, the plans of the next are made.

    Plans are thousands of small questions to Java, which cost as much as the answers where lines are few.
    """
    pool = ThreadPoolExecutor(1)
    try:
        made = deque((each, pool.submit(each.run, lines)) for each in map(find, wanted))
        while made:  # what Java keeps for a table goes with it
            each, future = made.popleft()
            yield each, future.result
    finally:
        pool.shutdown(cancel_futures=True)
