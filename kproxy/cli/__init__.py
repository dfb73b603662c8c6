"""The command line: finds the command, runs it, and turns what goes wrong into one sentence and a status.

A command is a module with `HELP`, `configure(parser)` and `run(args) -> status`; it imports what it needs in `run`,
so that ``kproxy --help`` stays fast.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from kproxy import __version__
from kproxy.cli.errors import USAGE, CommandError
from kproxy.outputs import streams
from kproxy.outputs.stderr import warn

#: Commands in the order of the help; those of developers are left out of it.
COMMANDS = ("tui", "web", "dissect", "explain", "rules", "quirks", "broker-features", "analyze")
DEVELOPER_COMMANDS = ("schemas",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, without the program's name; returns the exit status."""
    streams.open_closed()
    try:
        args = _parser(argv).parse_args(argv)
        status: int = args.run(args)
        sys.stdout.flush()
    except CommandError as error:
        warn(str(error))
        return error.status
    except BrokenPipeError:  # the reader of our output has left (`| head`): nothing more to say
        streams.give_up_output()
        return 0
    except OSError as error:
        if not streams.is_unwritable(error):
            raise
        streams.give_up_output()
        warn(f"the output is not whole: {streams.why(error)}")
        return USAGE
    except KeyboardInterrupt:
        return 130
    return status


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(USAGE, f"kproxy: {message}; see {self.prog} --help\n")


class _Command(_Parser):
    """Takes arguments before, behind and between options."""

    _is_between = False

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self._is_between or self._subparsers is not None or "--" in (args or ()):  # which would be lost
            return super().parse_known_args(args, namespace)
        self._is_between = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_between = False


def _parser(argv: Sequence[str] | None) -> argparse.ArgumentParser:
    relay = _command("relay")
    parser = _Parser(
        prog="kproxy",
        description="Wire-level inspecting proxy and protocol debugger for Apache Kafka.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kproxy {__version__}")
    relay.configure(parser)
    parser.set_defaults(run=relay.run)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Command)
    given = sys.argv[1:] if argv is None else argv
    for name in (*COMMANDS, *(name for name in DEVELOPER_COMMANDS if name in given[:1])):
        module = _command(name)
        child = commands.add_parser(
            name,
            help=module.HELP,
            description=module.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(child)
        child.set_defaults(run=module.run)
    return parser


def _command(name: str) -> ModuleType:
    return importlib.import_module(f"kproxy.cli.{name.replace('-', '_')}")
