"""Functions over lines that register themselves by the name of their file: jobs, and the queries of a stream."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Run = TypeVar("Run", bound=Callable[..., object])


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make one by the name of an alias
class Registered(Generic[Run]):
    """One of them: its name, what it tells in a sentence, and what it does."""

    name: str
    help: str
    run: Run


class Registry(Generic[Run]):
    """What the files of a package register; a file is loaded when it is asked for, since that takes pyspark.

    Args:
        package: Its name.
        path: Its `__path__`.
    """

    def __init__(self, package: str, path: Sequence[str]) -> None:
        self._package = package
        self._path = path
        self._found: dict[str, Registered[Run]] = {}

    def add(self, help_: str) -> Callable[[Run], Run]:
        """Register a function as the one of its file, which names it: ``slow_exchanges.py`` is slow-exchanges."""

        def register(run: Run) -> Run:
            name = _name(run.__module__.rpartition(".")[2])
            self._found[name] = Registered(name, help_, run)
            return run

        return register

    def names(self) -> list[str]:
        """The names of all, without loading one."""
        return sorted(_name(each.name) for each in pkgutil.iter_modules(self._path))

    def find(self, name: str) -> Registered[Run]:
        """The one of this name.

        Raises:
            KeyError: There is none.
        """
        if name not in self.names():
            raise KeyError(name)
        importlib.import_module(f"{self._package}.{name.replace('-', '_')}")
        return self._found[name]


def _name(module: str) -> str:
    return module.replace("_", "-")
