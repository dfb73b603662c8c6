"""The command line: finds and runs the command, and turns errors into one sentence and an exit status.

A command is a module with `HELP`, `configure(parser)` and `run(args) -> status`. At the top, modules of this package
import only what every command needs; the rest is imported in the functions that use it, so that ``kproxy --help`` stays
fast and does not load textual, scapy or pyspark. No import is deferred for any other reason.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import re
import sys
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from dissectors.collector import PROGRAM_THRESHOLD
from kproxy.cli import config_file
from kproxy.cli.overview import overview
from kproxy.errors import INTERRUPTED, USAGE, UserError
from kproxy.escaping import terminal
from kproxy.outputs import exit_statuses, streams
from kproxy.outputs.stderr import print_message, warn
from kproxy.version import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

#: Commands in the order of the help.
COMMANDS = (
    "tui", "web", "dissect", "explain", "diff", "export-test", "send", "probe", "replay", "rules", "quirks",
    "broker-features", "analyze", "schemas", "ca", "completion", "help",
)  # fmt: skip

#: Commands that need the options of all other commands.
_DESCRIBE_ALL = ("completion", "help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (without the program's name); return the exit status."""
    streams.reopen_closed_streams()
    if argv is None:  # called as a program, not by a test
        gc.set_threshold(*PROGRAM_THRESHOLD)
    try:
        try:
            args = _parse(sys.argv[1:] if argv is None else argv)
            status: int = args.run(args)
        finally:  # even if argparse exits after printing help
            sys.stdout.flush()
    except UserError as error:
        warn(str(error))
        for line in error.lines:
            print_message(line)
        return error.status
    except BrokenPipeError:  # the reader of the output has closed the pipe (`| head`)
        streams.discard_output()
        return 0
    except OSError as error:
        if not streams.is_unwritable(error):
            raise
        streams.discard_output()
        warn(f"the output is incomplete: {streams.error_text(error)}")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parse(words: Sequence[str]) -> argparse.Namespace:
    first = words[0] if words else ""
    # Loading one command instead of all saves 25 ms.
    parser = _parser((first,) if first in COMMANDS and first not in _DESCRIBE_ALL else COMMANDS)
    args = parser.parse_args(config_file.expand(words, _command("relay").declare, COMMANDS))
    if first not in COMMANDS and args.run is not _command("relay").run:
        command = next(word for word in words if word in COMMANDS)
        raise UserError(f"{first} before {command} would be ignored: pass the options of a command after its name")
    args.parse_again = partial(_parse, words)  # the configuration file may have changed
    return args


#: What is unknown ("option" or "command"), how it was written, and the known ones.
_Unknown: TypeAlias = tuple[str, str, Sequence[str]]

_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_OPTION_LINE = re.compile(r"^ +(-.*?)(?:  |$)", re.MULTILINE)  # a line of --help; two blanks separate the description


class _Parser(argparse.ArgumentParser):
    """Reports an unknown option or command together with the most similar known one."""

    _given_words: Sequence[str] = ()

    @property
    def help_command(self) -> str:
        """The command that lists the options."""
        return f"{self.prog} --help"

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        self._given_words = sys.argv[1:] if args is None else args
        return super().parse_known_args(args, namespace)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        # Does not call argparse, which since Python 3.11.5 hides that the disk is full.
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> None:  # type: ignore[override]
        unknown = self._unknown_option(message) or _parse_unknown_command(message)
        if unknown is None:
            self.exit(USAGE, f"kproxy: {terminal(message)}; see {self.help_command}\n")
        from kproxy.filters.errors import nearest

        kind, word, candidates = unknown
        suggestion = nearest(word, candidates)
        hint = (
            f"did you mean {suggestion}?"
            if suggestion
            else f"see {self.help_command if kind == 'option' else f'{self.prog} --help'}"
        )
        self.exit(USAGE, f"kproxy: unknown {kind} {terminal(word)}; {hint}\n")

    def _unknown_option(self, message: str) -> _Unknown | None:
        """Return the first unknown option. The word after it may be its value, so it is not taken for a command."""
        if not message.startswith(("unrecognized", "argument COMMAND", "the following arguments are required")):
            return None
        options = [option for line in _OPTION_LINE.findall(self.format_help()) for option in _OPTION.findall(line)]
        for word in itertools.takewhile(lambda word: word not in ("--", *COMMANDS), self._given_words):
            option = word.partition("=")[0] if word.startswith("--") else word[:2]
            if _OPTION.fullmatch(option) and option not in options:
                return "option", option, [option for option in options if option.startswith("--")]
        return None


class _RootParser(_Parser):
    """Shows an overview as its help; `kproxy help relay` shows the options."""

    @property
    def help_command(self) -> str:
        return "kproxy help relay"

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        commands = ((name, _command(name).HELP) for name in COMMANDS)
        (file or sys.stdout).write(overview(commands))


class _CommandParser(_Parser):
    """Accepts arguments before, after and between options."""

    _is_parsing = False
    _has_commands = False

    def add_subparsers(self, **settings):  # type: ignore[no-untyped-def]
        self._has_commands = True
        return super().add_subparsers(**settings)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self._is_parsing:
            return super().parse_known_args(args, namespace)  # type: ignore[no-untyped-call]
        self._is_parsing = True
        try:
            if self._has_commands or "--" in (args or ()):  # otherwise "--" would be lost
                parsed, remaining = super().parse_known_args(args, namespace)  # type: ignore[no-untyped-call]
            else:
                parsed, remaining = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_parsing = False
        if remaining:
            self._given_words = args
            self.error(f"unrecognized arguments: {' '.join(remaining)}")
        return parsed, remaining


def _parse_unknown_command(message: str) -> _Unknown | None:
    match = re.match(r"argument (COMMAND|ACTION): invalid choice: '(.*?)' \(choose from (.*)\)", message)
    return (match[1].lower(), match[2], re.findall(r"[\w-]+", match[3])) if match else None


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of the relay's options and of these commands."""
    parser = relay_parser(_RootParser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_CommandParser)
    for name in names:
        module = _command(name)
        child = commands.add_parser(
            name,
            help=module.HELP,
            description=module.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(child)
        child.epilog = (child.epilog or "") + exit_statuses.sentence(name)
        child.set_defaults(run=module.run, root=parser, default_of=child.get_default)
    return parser


def relay_parser(kind: type[_Parser] = _Parser) -> _Parser:
    """Make the parser of the relay's options, without commands."""
    relay = _command("relay")
    parser = kind(
        prog="kproxy",
        description="Relay traffic between clients and brokers, and inspect it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"kproxy {__version__}")
    relay.configure(parser)
    parser.epilog = (parser.epilog or "") + exit_statuses.sentence("relay")
    parser.set_defaults(run=relay.run, default_of=parser.get_default)
    return parser


def _command(name: str) -> ModuleType:
    return importlib.import_module(f"kproxy.cli.{name.replace('-', '_')}")
