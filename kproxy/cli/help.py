"""``kproxy help``: prints the help of a command, like its ``--help``."""

from __future__ import annotations

import argparse

from kproxy.errors import CLEAN

HELP = "show the help of a command"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="a command (default: kproxy itself)")


def run(args: argparse.Namespace) -> int:
    """Print the help."""
    args.root.parse_args([*args.command, "--help"])  # exits
    return CLEAN
