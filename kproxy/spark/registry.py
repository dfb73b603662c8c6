"""Registries of functions over lines, named after their files: jobs, and the queries of a stream."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Run = TypeVar("Run", bound=Callable[..., object])


@dataclass(frozen=True)  # Python 3.11 cannot instantiate an alias with slots
class RegisteredFunction(Generic[Run]):
    """A registered function: its name, its description, and the function."""

    name: str
    help: str
    run: Run


class Registry(Generic[Run]):
    """The functions registered by the files of a package. Files are imported on demand, because that needs pyspark.

    Args:
        package: The package's name.
        path: The package's `__path__`.
    """

    def __init__(self, package: str, path: Sequence[str]) -> None:
        self._package = package
        self._path = path
        self._functions: dict[str, RegisteredFunction[Run]] = {}

    def add(self, help_: str) -> Callable[[Run], Run]:
        """Register the function of a file under the name of the file: ``slow_exchanges.py`` becomes slow-exchanges."""

        def register(run: Run) -> Run:
            name = _name(run.__module__.rpartition(".")[2])
            self._functions[name] = RegisteredFunction(name, help_, run)
            return run

        return register

    def names(self) -> list[str]:
        """Return all names, without importing the files."""
        return sorted(_name(module.name) for module in pkgutil.iter_modules(self._path))

    def find(self, name: str) -> RegisteredFunction[Run]:
        """Return the function with this name.

        Raises:
            KeyError: There is no such function.
        """
        if name not in self.names():
            raise KeyError(name)
        importlib.import_module(f"{self._package}.{name.replace('-', '_')}")
        return self._functions[name]


def _name(module: str) -> str:
    return module.replace("_", "-")
