"""``kproxy help``: prints the overview, or the help of a command or topic."""

from __future__ import annotations

import argparse
import sys

from kproxy.errors import CLEAN, UserError
from kproxy.outputs import exit_statuses

HELP = "show the help of a command, of the relay, or the exit codes"

#: Topics that are not commands.
RELAY, EXIT_CODES = "relay", "exit-codes"

_EXAMPLES = """
examples:
  kproxy help                    # all commands
  kproxy help relay              # the options of kproxy --listen ... --upstream ...
  kproxy help dissect            # the same as kproxy dissect --help
  kproxy help exit-codes         # those of all commands
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND",
        help=f"a command, or {RELAY}, or {EXIT_CODES} (default: an overview of all)",
    )  # fmt: skip
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Print the help; return the exit status."""
    from kproxy.cli import COMMANDS, relay_parser
    from kproxy.filters.errors import nearest

    match args.command:
        case [topic] if topic == RELAY:
            relay_parser().print_help()
        case [topic] if topic == EXIT_CODES:
            sys.stdout.write(exit_statuses.table())
        case [unknown, *_] if unknown not in COMMANDS:
            suggestion = nearest(unknown, (*COMMANDS, RELAY, EXIT_CODES))
            hint = f"did you mean {suggestion}?" if suggestion else "see kproxy --help"
            raise UserError(f"unknown command {unknown}; {hint}")
        case words:
            args.root.parse_args([*words, "--help"])  # exits
    return CLEAN
