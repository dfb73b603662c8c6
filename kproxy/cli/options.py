"""Options that several commands share; `kproxy.outputs.finding_selection` implements them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dissectors.limits import Values
    from kproxy.outputs.finding_selection import Selection

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MIN_SIZE = 1 << 20

#: How each shell completes file and directory arguments; `kproxy completion` fills these in.
FILE: dict[str, str | dict[str, str]] = {}
DIRECTORY: dict[str, str | dict[str, str]] = {}


class OptionGroup(Protocol):
    """Accepts option declarations: a parser, an argument group, or `kproxy.cli.command_line.DeclaredOptions`."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Like argparse."""

    def add_argument_group(self, title: str, /) -> OptionGroup:
        """Like argparse."""

    def add_mutually_exclusive_group(self) -> OptionGroup:
        """Like argparse."""


def set_completion(action: argparse.Action, completion: dict[str, str | dict[str, str]]) -> None:
    """Let shells complete the values of an argument with files or directories."""
    action.complete = completion  # type: ignore[attr-defined]  # shtab reads this attribute


def add_selection_options(parser: OptionGroup) -> None:
    """Declare the options that select findings."""
    parser.add_argument(
        "--select", metavar="CODES", action="append", default=[],
        help="show only these findings: rule codes, code prefixes or rule names, e.g. L,C0,S013",
    )  # fmt: skip
    parser.add_argument("--ignore", metavar="CODES", action="append", default=[], help="hide these findings")


def add_limit_option(parser: OptionGroup) -> None:
    """Declare the option that sets limits of rules."""
    parser.add_argument(
        "--rule", metavar="CODE:LIMIT=VALUE", action="append", default=[],
        help="set a limit of a rule, e.g. C020:wait=30s; kproxy rules CODE lists its limits; repeatable",
    )  # fmt: skip


def limits_of(args: argparse.Namespace) -> Values:
    """Return the limits given with `--rule` (see `add_limit_option`).

    Raises:
        UserError: A rule, limit or value is invalid.
    """
    if not args.rule:
        return {}
    from kproxy.outputs.rule_limits import parse_limits

    return parse_limits(args.rule)


def add_fail_on_option(parser: OptionGroup, default: str = "error") -> None:
    """Declare the option that sets which findings make the command fail."""
    parser.add_argument(
        "--fail-on", choices=("info", "warning", "error", "never"),
        help=f"exit with status 1 on a finding of at least this severity (default: {default})",
    )  # fmt: skip


def selection_of(args: argparse.Namespace, fail_on: str = "error") -> Selection:
    """Return the selection that the options of a command line make; `fail_on` is the default.

    Raises:
        UserError: A code or rule name is unknown.
    """
    from kproxy.outputs.finding_selection import Selection

    return Selection(args.select, args.ignore, args.fail_on or fail_on)


def add_local_time_option(parser: OptionGroup) -> None:
    """Declare --local-time."""
    parser.add_argument("--local-time", action="store_true", help="show times in the local time zone (TZ), not in UTC")


def add_capture_options(parser: OptionGroup) -> None:
    """Declare the options for reading captures."""
    parser.add_argument(
        "--port", type=int, action="append", default=[], metavar="N",
        help="Kafka's port, repeatable (default: detect Kafka by content)",
    )  # fmt: skip
    set_completion(
        parser.add_argument("--keylog", metavar="FILE", help="decrypt TLS with this key log (SSLKEYLOGFILE)"), FILE
    )


def size(text: str) -> int:
    """Parse the value of a size option, such as ``200M``; return bytes."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in _UNITS else (text, "")
    if not number.isdecimal() or (size := int(number) * _UNITS.get(unit, 1)) < _MIN_SIZE:
        raise argparse.ArgumentTypeError(f"invalid size {text!r}: use 1M or more, e.g. 200M or 1G")
    return size
