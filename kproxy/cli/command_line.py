"""Turns parsed options back into a command line, for a child kproxy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from kproxy.cli.options import OptionGroup


def options_of(args: argparse.Namespace, configure: Callable[[OptionGroup], object]) -> list[str]:
    """Return the options declared by `configure` that differ from their defaults in `args`, as a command line."""
    declared_options = DeclaredOptions()
    configure(declared_options)
    words = []
    for action in declared_options.actions:
        value = getattr(args, action.dest)
        if not action.option_strings or value == action.default:
            continue
        option = action.option_strings[-1]
        words += [
            option if element is True or element == action.const else f"{option}={element}"
            for element in (value if isinstance(value, list) else [value])
        ]
    return words


class DeclaredOptions:
    """Collects option declarations in place of a parser, because argparse has no public list of them."""

    def __init__(self) -> None:
        self.actions: list[argparse.Action] = []
        self.repeated: set[str] = set()  # the names of options that may be given more than once
        self._parser = argparse.ArgumentParser(add_help=False)

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        self.actions.append(action := self._parser.add_argument(*names, **settings))
        if settings.get("action") == "append":
            self.repeated.add(names[-1])
        return action

    def add_argument_group(self, title: str, /) -> DeclaredOptions:
        return self

    def add_mutually_exclusive_group(self) -> DeclaredOptions:
        return self
