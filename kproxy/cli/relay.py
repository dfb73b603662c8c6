"""The root command: relay between clients and brokers, and inspect what goes by."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import broker_listeners, broker_options, options
from kproxy.errors import CLEAN, UNWATCHED, UserError

if TYPE_CHECKING:
    from kproxy.control.control_socket import ControlSocket
    from kproxy.proxy.relay import Listener

_EXAMPLES = """
examples:
  kproxy --listen 9092 --upstream
  kproxy --listen 9092 --upstream --brokers 3 --kafka 2.8 --topic orders:6
  kproxy --listen PLAINTEXT://9092 --listen SSL://9093 --upstream --tls-cert cert.pem --tls-key key.pem
  kproxy --listen 9092 --upstream broker:9092
  kproxy --listen 9092 --upstream b1:9092 --listen 9093 --upstream b2:9092 --detail full
  kproxy --listen 0.0.0.0:9092 --upstream '[::1]:19092' --trace /var/tmp/kafka-trace -q
  kproxy --listen 9092 --upstream broker:9092 --no-trace --json -f 'error or latency>1s'

Point clients at the listener. Clients follow the addresses that brokers advertise: unless these lead back to kproxy
(advertised.listeners), it sees the first connection only.

exit status: 0 ended by Ctrl-C or SIGTERM, 2 wrong usage or an address that cannot be used,
3 an upstream that cannot be reached, 4 the inspector failed: relayed to the end, not traced to the end
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = add_relay(parser)
    group.add_argument("--json", action="store_true", help="show trace lines on standard output instead of text")
    group.add_argument("-f", "--filter", metavar="FILTER", help="show only lines that match; the trace has all")
    group.add_argument("-v", "--verbose", action="store_true", help="show the fields of each frame")
    group.add_argument("-q", "--quiet", action="store_true", help="show only findings and gaps")
    options.add_selection(group)
    broker_options.configure(parser)
    parser.set_defaults(fail_on="never")
    parser.epilog = _EXAMPLES


def add_relay(parser: options.Group) -> options.Group:
    """Declare what is relayed, and what is kept of it; the group of these options."""
    group = parser.add_argument_group("relay")
    group.add_argument(
        "--listen", action="append", default=[], metavar="[HOST:]PORT",
        help="accept clients here, on loopback unless HOST says otherwise; unix:PATH too; of the built-in broker also "
        "PLAINTEXT://, SSL://, SASL_PLAINTEXT:// or SASL_SSL://[HOST:]PORT, each a listener of its own",
    )  # fmt: skip
    group.add_argument(
        "--upstream", action="append", default=[], metavar="HOST:PORT", nargs="?", const=broker_options.BUILT_IN,
        help="the broker; with several --listen one for each, in the same order; without a value a built-in broker",
    )  # fmt: skip
    group.add_argument("--no-check", action="store_true", help="start although an upstream does not answer yet")
    options.completes(
        group.add_argument(
            "--trace", metavar="DIR", default="kproxy-trace", help="write the trace here (default: %(default)s)"
        ),
        options.DIRECTORY,
    )
    group.add_argument("--no-trace", action="store_true", help="write no trace")
    group.add_argument("--compress", action="store_true", help="write the trace with zstd")
    group.add_argument(
        "--detail", choices=("summary", "full", "raw"), default="summary",
        help="facts of each frame in the trace (default), its decoded body too, its bytes too",
    )  # fmt: skip
    group.add_argument("--strict-trace", action="store_true", help="the trace is complete: the relay waits for it")
    control = group.add_mutually_exclusive_group()
    options.completes(
        control.add_argument(
            "--control", metavar="PATH", help="the socket for kproxy tui (default: one that it finds by itself)"
        ),
        options.FILE,
    )
    control.add_argument("--no-control", action="store_true", help="open no such socket")
    # For whoever starts a proxy of its own and must not leave it behind.
    group.add_argument("--stop-with-stdin", action="store_true", help=argparse.SUPPRESS)
    return group


def run(args: argparse.Namespace) -> int:
    """Relay until a signal ends it; the exit status."""
    if not args.listen and not args.upstream:
        raise UserError("nothing to do: give --listen and --upstream, or a command; see kproxy --help")
    broker = broker_options.options_of(args)
    if broker is None and len(args.listen) != len(args.upstream):
        raise UserError(
            f"{len(args.listen)} --listen and {len(args.upstream)} --upstream: each --listen needs one --upstream"
        )
    from kproxy.live.run import run as run_live
    from kproxy.live.sink import InspectorOptions
    from kproxy.outputs.selecting import OutputOptions, filter_for
    from kproxy.trace.lines import Detail

    output = OutputOptions(filter_for(args.filter), json=args.json, verbose=args.verbose, quiet=args.quiet)
    selection = options.selection_of(args)
    listeners = _listeners(args) if broker is None else _own_listeners(args, broker.brokers)
    directory = None if args.no_trace else _trace_directory(Path(args.trace))
    control = _control(args)
    watched = run_live(
        listeners,
        InspectorOptions(
            output,
            selection,
            Detail(args.detail),
            directory=directory,
            compress=args.compress,
            control=control,
            built_in=broker is not None,
        ),
        watch_command=None if control is None else shlex.join(["kproxy", "tui", *filter(None, [args.control])]),
        strict=args.strict_trace,
        check=not args.no_check,
        stop_with_stdin=args.stop_with_stdin,
        broker=broker,
    )
    return CLEAN if watched else UNWATCHED


def _listeners(args: argparse.Namespace) -> list[Listener]:
    from kproxy.proxy.address import parse_listen, parse_upstream
    from kproxy.proxy.relay import Listener

    try:
        return [
            Listener(parse_listen(listen), parse_upstream(upstream))
            for listen, upstream in zip(args.listen, args.upstream, strict=True)
        ]
    except ValueError as error:
        raise UserError(str(error)) from None


def _own_listeners(args: argparse.Namespace, brokers: int) -> list[Listener]:
    """Where clients of the built-in brokers come."""
    from kproxy.proxy.relay import Listener

    return [Listener(each, each) for each in broker_listeners.addresses(args, brokers)]


def _control(args: argparse.Namespace) -> ControlSocket | None:
    """The control socket; that there is none where nobody asked for it is only said."""
    from kproxy.control.control_socket import open_socket
    from kproxy.control.protocol import ControlError
    from kproxy.outputs.stderr import warn

    if args.no_control:
        return None
    try:
        return open_socket(None if args.control is None else Path(args.control))
    except ControlError as error:
        if args.control is not None:
            raise UserError(f"--control: {error}") from None
        warn(
            f"there is no control socket: {error}; traffic is relayed all the same, --control PATH opens one elsewhere"
        )
        return None


def _trace_directory(path: Path) -> Path:
    """Make the directory now, so that a wrong one is said at once."""
    import os

    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "no permission to write")
    except OSError as error:
        raise UserError(f"--trace {path}: {error.strerror}; give another directory, or --no-trace") from None
    return path
