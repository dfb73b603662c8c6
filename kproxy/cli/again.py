"""Turns parsed options back into a command line, for a child kproxy."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def options_of(args: argparse.Namespace, configure: Callable[[argparse.ArgumentParser], object]) -> list[str]:
    """The options declared by `configure` that differ from their defaults in `args`, as a command line."""
    parser = argparse.ArgumentParser(add_help=False)
    configure(parser)
    words = []
    for action in parser._actions:
        value = getattr(args, action.dest)
        if not action.option_strings or value == action.default:
            continue
        option = action.option_strings[-1]
        words += [
            option if each is True or each == action.const else f"{option}={each}"
            for each in (value if isinstance(value, list) else [value])
        ]
    return words
