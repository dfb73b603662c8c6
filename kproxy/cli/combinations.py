"""Refuses options that have no effect because of another option, so that nothing is ignored silently."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from kproxy.errors import UserError

#: Options whose name differs from that of their attribute.
_NAMES = {"verbose": "-v", "quiet": "-q", "filter": "-f", "api_version": "-v"}


def first_given(args: argparse.Namespace, options: Iterable[str]) -> str | None:
    """Return the first given one of these options, as on the command line; `options` are attributes of `args`."""
    default_of = getattr(args, "default_of", lambda _: None)
    for name in options:
        if (value := getattr(args, name, None)) not in (None, False, []) and value != default_of(name):
            return _NAMES.get(name, f"--{name.replace('_', '-')}")
    return None


def refuse(args: argparse.Namespace, options: Iterable[str], reason: str) -> None:
    """Refuse options that would have no effect; `reason` is the rest of the sentence.

    Raises:
        UserError: One of the options was given.
    """
    if (option := first_given(args, options)) is not None:
        raise UserError(f"{option} {reason}")
