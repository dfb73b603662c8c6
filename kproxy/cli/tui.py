"""`kproxy tui`: shows a running proxy, a trace or a capture in the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kproxy.cli import broker_options, command_line, options, payload_options, relay
from kproxy.cli.combinations import refuse
from kproxy.errors import CLEAN, USAGE, UserError
from kproxy.outputs.stderr import warn

if TYPE_CHECKING:
    from kproxy.browse.sources.child_proxy import ChildProxy
    from kproxy.browse.sources.source import Source
    from kproxy.tui.app import KproxyApp

HELP = "browse live traffic, a trace or a capture in the terminal"

_EXAMPLES = """
examples:
  kproxy tui                                    attach to the running proxy
  kproxy tui 9092                               attach to the proxy on this port
  kproxy tui --listen 9092 --upstream broker:9092
  kproxy tui --listen 9092 --upstream --topic orders:6
  kproxy tui capture.pcap                       also .gz, pcapng, several files
  kproxy tui --payloads --schemas schemas/ capture.pcap
  kproxy tui --listen 9092 --upstream broker:9092 --payloads --registry http://localhost:8081
  kproxy tui kproxy-trace                       a directory of traces; follows those still being written
  kproxy tui -f 'error!=0' trace.jsonl.zst
  tcpdump -i lo -w - port 9092 | kproxy tui -

Press ? for the keys. kproxy dissect prints the same information as text.
"""
#: The name and a description of each running proxy.
Choices = list[tuple[str, str]]
_AS_TEXT = "use kproxy dissect for text output"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_source_argument(parser)
    add_view_options(parser)
    add_capture_options(parser)
    add_proxy_options(parser)
    parser.epilog = _EXAMPLES


def add_source_argument(parser: options.OptionGroup) -> None:
    """Declare the argument for what to show."""
    options.set_completion(parser.add_argument(
        "sources", nargs="*", metavar="SOURCE",
        help="traces, captures, directories of these, '-' for standard input, or HOST:PORT or the control socket of "
        "a running proxy",
    ), options.FILE)  # fmt: skip


def add_view_options(parser: options.OptionGroup) -> None:
    """Declare the options that concern the view."""
    add_row_options(parser)
    options.add_local_time_option(parser)
    parser.add_argument("--theme", metavar="NAME", help="color theme; an unknown name lists all themes")


def add_row_options(parser: options.OptionGroup) -> None:
    """Declare the options that choose rows and limit them."""
    parser.add_argument("-f", "--filter", metavar="FILTER", help="show only matching rows, e.g. 'error!=0' (key: /)")
    parser.add_argument(
        "--keep", type=options.size, default=1 << 30, metavar="SIZE",
        help="keep at most this much data of a running proxy, in a temporary file, e.g. 200M (default: 1G)",
    )  # fmt: skip


def add_capture_options(parser: options.OptionGroup) -> None:
    """Declare the options for reading captures."""
    options.add_capture_options(parser)
    add_inspection_options(parser)


def add_inspection_options(parser: options.OptionGroup) -> None:
    """Declare the options for inspecting a capture or the traffic of a child proxy."""
    options.add_limit_option(parser)
    payload_options.configure(parser)


def add_proxy_options(parser: options.OptionGroup) -> None:
    """Declare the options of a child proxy."""
    relay.add_relay_options(parser)
    broker_options.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Run the view until the user closes it; return the exit status."""
    _check_terminal()
    source = open_source(args, _choose)
    try:
        app = app_of(args, source)
        app.run()
    finally:
        source.close()
    if bad_count := app.session.bad:
        warn(f"{bad_count} line{'s' * (bad_count != 1)} could not be read; kproxy dissect names the first ones")
    return app.return_code or (USAGE if bad_count else CLEAN)


def app_of(args: argparse.Namespace, source: Source) -> KproxyApp:
    """Make the application for a source and the options.

    Raises:
        UserError: The filter is invalid or the theme is unknown.
    """
    from kproxy.browse.session import BrowseSession
    from kproxy.outputs.line_outputs import filter_for
    from kproxy.tui.app import KproxyApp

    session = BrowseSession(source)
    session.visible.choose(filter_for(args.filter))
    session.clock.is_local = args.local_time
    app = KproxyApp(session)
    if args.theme is not None:
        if args.theme not in app.available_themes:
            themes = ", ".join(sorted(app.available_themes))
            raise UserError(f"unknown theme {args.theme!r}; use one of {themes}")
        app.theme = args.theme
    elif app.console.color_system == "standard":
        # Other themes are not legible with sixteen colors. Textual 8.0 uses the second name.
        app.theme = "ansi-dark" if "ansi-dark" in app.available_themes else "textual-ansi"
    return app


def open_source(
    args: argparse.Namespace,
    choose: Callable[[Choices], str],
    *,
    reads_keys: bool = True,
    on_message: Callable[[str], object] = lambda _: None,
) -> Source:
    """Open the source to show.

    Args:
        args: The options.
        choose: Selects one of several running proxies.
        reads_keys: Whether the view reads keys from a terminal while a pipe is read.
        on_message: Receives the messages of a proxy that is started.

    Raises:
        UserError: The source cannot be opened, or options cannot be combined.
    """
    payload_options.record_values_of(args)
    options.limits_of(args)
    source = _open(args, choose, on_message, reads_keys=reads_keys)
    try:
        _check_options(args, source)
    except UserError:
        source.close()
        raise
    return source


def _check_options(args: argparse.Namespace, source: Source) -> None:
    from kproxy.browse.sources.capture_child import DissectedSource
    from kproxy.browse.sources.child_proxy import ChildProxySource
    from kproxy.browse.sources.proxy import ProxySource

    if isinstance(source, DissectedSource):
        payload_options.check_filter(args)
    else:
        if args.payloads and not isinstance(source, ChildProxySource):
            raise UserError("this source is a trace: pass --payloads to the proxy that writes it")
        if args.rule and not isinstance(source, ChildProxySource):
            raise UserError("this source is a trace: pass --rule to the proxy that writes it")
        refuse(args, ("port", "keylog"), "is for captures: leave it out")
    if not isinstance(source, ProxySource):
        refuse(args, ("keep",), "is for a running proxy: leave it out")


def _open(
    args: argparse.Namespace, choose: Callable[[Choices], str], on_message: Callable[[str], object], *, reads_keys: bool
) -> Source:
    from kproxy.browse.sources.child_proxy import ChildProxySource
    from kproxy.browse.sources.factory import open_source
    from kproxy.browse.sources.source import AmbiguousSourceError

    proxy = start_child_proxy(args, on_message)
    if proxy is not None:
        return ChildProxySource(proxy, keep=args.keep)
    capture = command_line.options_of(args, add_capture_options)
    try:
        return open_source(args.sources, capture, keep=args.keep, reads_keys=reads_keys)
    except AmbiguousSourceError as error:
        return open_source([choose(error.choices)], capture, keep=args.keep)


def refuse_ambiguous(command: str, choices: Choices) -> NoReturn:
    """List the running proxies, each with the command that shows it.

    Raises:
        UserError: Always.
    """
    width = max(len(name) for name, _ in choices)
    lines = [f"  kproxy {command} {name:<{width}}  {description}" for name, description in choices]
    raise UserError("several proxies are running; choose one:", lines=lines)


def _choose(choices: Choices) -> str:
    """Let the user choose a proxy in the terminal. Exit if the user cancels."""
    from kproxy.tui.proxy_picker import Chooser

    if not sys.stdin.isatty():
        refuse_ambiguous("tui", choices)
    if (name := Chooser(choices).run()) is None:
        raise SystemExit(CLEAN)
    return name


def start_child_proxy(
    args: argparse.Namespace, on_message: Callable[[str], object] = lambda _: None
) -> ChildProxy | None:
    """Start the proxy that the options configure; return None if they configure none.

    `on_message` receives the messages of the proxy.

    Raises:
        UserError: The proxy cannot be started, or options cannot be combined.
    """
    proxy_options = command_line.options_of(args, add_proxy_options)
    if not proxy_options:
        return None
    if not args.listen:
        raise UserError(f"{proxy_options[0].partition('=')[0]} configures a proxy: pass --listen and --upstream too")
    if args.sources:
        raise UserError(f"{args.sources[0]}: pass a source to read or --listen to start a proxy, not both")
    if args.no_control:
        raise UserError("--no-control cannot be used here: the view reads the proxy's control socket")
    refuse(args, ("port", "keylog"), "is for captures, and this starts a proxy: leave it out")
    payload_options.check_filter(args)
    proxy_options += command_line.options_of(args, add_inspection_options)
    from kproxy.browse.sources.child_proxy import ChildProxy
    from kproxy.control.protocol import ControlError

    try:
        return ChildProxy(proxy_options, None if args.control is None else Path(args.control), on_message)
    except ControlError as error:
        raise UserError(str(error)) from None


def _check_terminal() -> None:
    for stream, name in ((sys.stdout, "output"), (sys.stderr, "error")):  # Textual writes to standard error
        if not stream.isatty():
            raise UserError(f"standard {name} is not a terminal: {_AS_TEXT}")
    if os.environ.get("TERM") == "dumb":
        raise UserError(f"TERM=dumb: this terminal cannot draw the view: {_AS_TEXT}")
