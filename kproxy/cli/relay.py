"""The root command: relays traffic between clients and brokers, and inspects it."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kproxy.cli import broker_options, config_file, listeners, options, payload_options, tls
from kproxy.cli.combinations import refuse
from kproxy.cli.rewrite_options import rewriting_of
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.control.control_socket import ControlSocket
    from kproxy.proxy.address import TcpAddress
    from kproxy.replay.answers import CapturedAnswers

_EXAMPLES = """
examples:
  kproxy --listen 9092 --upstream
  kproxy --listen 9092 --upstream --brokers 3 --kafka 2.8 --topic orders:6
  kproxy --listen PLAINTEXT://9092 --listen SSL://9093 --upstream --tls-cert cert.pem --tls-key key.pem
  kproxy --listen 9092 --upstream broker:9092 --advertise
  kproxy --listen 9093 --tls-cert cert.pem --tls-key key.pem --upstream broker:9093 --upstream-tls --advertise
  kproxy --listen 9092 --upstream b1:9092 --listen 9093 --upstream b2:9092 --detail full
  kproxy --listen 9092 --upstream broker:9092 --payloads --registry http://localhost:8081
  kproxy --listen 9092 --replay capture.pcap
  kproxy --listen 0.0.0.0:9092 --upstream '[::1]:19092' --trace /var/tmp/kafka-trace -q
  kproxy --listen 9092 --upstream broker:9092 --no-trace --json -f 'error or latency>1s'

Point clients at the listener. Clients then connect to the addresses that brokers advertise (advertised.listeners):
unless these lead back to kproxy, it sees only the bootstrap connection. --advertise rewrites these addresses.
"""


_TRACE: Final = "kproxy-trace"
#: One relay cannot feed more inspectors than this.
MAX_INSPECTORS: Final = 64


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    declare(parser)
    parser.epilog = _EXAMPLES


def declare(parser: options.OptionGroup) -> None:
    """Declare the options that can also be set in a configuration file."""
    group = add_relay_options(parser)
    group.add_argument("--json", action="store_true", help="print trace lines (JSON) instead of text")
    group.add_argument(
        "-f", "--filter", metavar="FILTER", help="print only matching lines; the trace still gets every line"
    )
    group.add_argument("-v", "--verbose", action="store_true", help="print the fields of each frame")
    options.add_local_time_option(group)
    group.add_argument("-q", "--quiet", action="store_true", help="print only findings and gaps")
    options.add_selection_options(group)
    options.add_limit_option(group)
    options.add_fail_on_option(group, "never")
    payload_options.configure(parser)
    broker_options.configure(parser)


def add_relay_options(parser: options.OptionGroup) -> options.OptionGroup:
    """Declare the options of the relay and its trace; return their group."""
    group = parser.add_argument_group("relay")
    group.add_argument(
        "--listen", action="append", default=[], metavar="[HOST:]PORT",
        help="accept clients on this address (default host: loopback), or on unix:PATH; the built-in broker also takes "
        "PLAINTEXT://, SSL://, SASL_PLAINTEXT:// and SASL_SSL://[HOST:]PORT; repeat for several listeners",
    )  # fmt: skip
    group.add_argument(
        "--upstream", action="append", default=[], metavar="HOST:PORT", nargs="?", const=broker_options.BUILT_IN,
        help="forward to this broker; repeat once per --listen, in the same order; without a value: start the built-in "
        "broker",
    )  # fmt: skip
    options.set_completion(
        group.add_argument(
            "--replay", metavar="FILE",
            help="instead of --upstream: answer clients with the responses of this capture, or trace of --detail raw",
        ),
        options.FILE,
    )  # fmt: skip
    group.add_argument(
        "--advertise", nargs="?", const="", metavar="HOST[:PORT]",
        help="open a listener for each broker and direct clients there: rewrite the brokers' addresses in responses to "
        "HOST (default: the host listened on) and PORT + node id (default: the port after --listen's); "
        "HOST:ID=PORT,ID=PORT sets single ports; 'broker-$id.HOST' gives each broker a name on one port with TLS (SNI)",
    )  # fmt: skip
    group.add_argument(
        "--cap-versions", action="store_true", help="offer clients no API version that this kproxy cannot decode"
    )
    group.add_argument("--no-check", action="store_true", help="start even if an upstream is unreachable")
    options.set_completion(
        group.add_argument(
            "--trace",
            metavar="DIR",
            help=f"write the trace to this directory (default: {_TRACE})",
        ),
        options.DIRECTORY,
    )
    group.add_argument("--no-trace", action="store_true", help="do not write a trace")
    group.add_argument("--compress", action="store_true", help="compress the trace with zstd")
    group.add_argument(
        "--detail", choices=("summary", "full", "raw"), default="summary",
        help="what the trace keeps of each frame: a summary (default), also its decoded body, or also its raw bytes",
    )  # fmt: skip
    group.add_argument(
        "--strict-trace", action="store_true", help="never drop trace lines: the relay waits for the inspector"
    )
    group.add_argument(
        "--sample", metavar="SHARE",
        help="inspect only a share of the connections, e.g. 0.1 or 10%%; the others are relayed and counted",
    )  # fmt: skip
    group.add_argument(
        "--inspectors", metavar="N", default="1",
        help="inspect in N processes, for more traffic than one can follow; a client's connections stay together "
        "(default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--end-timeout", metavar="SECONDS", default=None,
        help="after Ctrl-C or SIGTERM, end within this time (default: 10): then what is not inspected becomes gaps",
    )  # fmt: skip
    control = group.add_mutually_exclusive_group()
    options.set_completion(
        control.add_argument(
            "--control",
            metavar="PATH",
            help="create the control socket here; kproxy tui connects to it (default: chosen automatically)",
        ),
        options.FILE,
    )
    control.add_argument("--no-control", action="store_true", help="do not create a control socket")
    options.set_completion(
        group.add_argument(
            config_file.OPTION, metavar="TOML", help="read options from this file, e.g. kproxy.toml; a key is the long "
            "name of an option: listen = [\"9092\"]",
        ),
        options.FILE,
    )  # fmt: skip
    group.add_argument(
        "--http", metavar="[HOST:]PORT",
        help="serve health (/healthz, /livez) and Prometheus metrics (/metrics) here (default host: loopback)",
    )  # fmt: skip
    # For programs that start a child proxy and must not leave it running.
    group.add_argument("--stop-with-stdin", action="store_true", help=argparse.SUPPRESS)
    tls.configure(parser)
    return group


def run(args: argparse.Namespace) -> int:
    """Relay until a signal stops it; return the exit status."""
    if not args.listen and not args.upstream:
        raise UserError("nothing to do: pass --listen and --upstream, or a command; see kproxy --help")
    _check(args)
    broker = broker_options.options_of(args)
    answers = None if args.replay is None else _captured_answers(args)
    if broker is None and answers is None and len(args.listen) != len(args.upstream):
        raise UserError(
            f"{len(args.listen)} --listen and {len(args.upstream)} --upstream: each --listen needs one --upstream"
        )
    from kproxy.live.options import InspectorOptions
    from kproxy.live.run import RelayOptions
    from kproxy.live.run import run as run_live
    from kproxy.live.upstreams import BuiltInBroker, CapturedResponses, RunningBrokers, Upstream
    from kproxy.outputs.line_outputs import OutputOptions, filter_for

    http, registry = (
        _parse_tcp_address(args.http, "--http"),
        _parse_tcp_address(args.registry_listen, "--registry-listen"),
    )
    payload_options.check_filter(args)
    if registry is not None:
        payload_options.use_own_registry(args, registry)
    output = OutputOptions(
        filter_for(args.filter),
        json=args.json,
        verbose=args.verbose,
        quiet=args.quiet,
        payloads=args.payloads,
        local_time=args.local_time,
    )
    selection, limits = options.selection_of(args, "never"), options.limits_of(args)
    record_values = payload_options.record_values_of(args, in_background=True)
    sample, inspectors = _sampled_share(args), _inspector_count(args)
    upstream: Upstream
    if answers is not None:
        configured_listeners, upstream = listeners.replay_listeners(args), CapturedResponses(answers)
    elif broker is not None:
        configured_listeners, upstream = listeners.built_in_listeners(args, broker), BuiltInBroker(broker, registry)
    else:
        configured_listeners, upstream = listeners.upstream_listeners(args), RunningBrokers(check=not args.no_check)
    rewriting = rewriting_of(args, configured_listeners)
    directory = None if args.no_trace else _create_trace_directory(Path(args.trace or _TRACE))
    control = _open_control_socket(args)
    inspector = InspectorOptions(
        output,
        selection,
        payload_options.detail_of(args),
        directory=directory,
        compress=args.compress,
        control=control,
        built_in=broker is not None,
        metrics=http is not None,
        record_values=record_values,
        workers=inspectors,
        end_timeout=_end_timeout(args),
        limits=limits,
    )
    return run_live(
        RelayOptions(
            configured_listeners,
            inspector,
            upstream,
            strict=args.strict_trace,
            stop_with_stdin=args.stop_with_stdin,
            watch_command=None if control is None else shlex.join(["kproxy", "tui", *filter(None, [args.control])]),
            rewriting=rewriting,
            sample=sample,
            reload=None if args.config_file is None or answers is not None else partial(listeners.reload, args, broker),
            http=http,
        )
    )


def _check(args: argparse.Namespace) -> None:
    """Reject options that have no effect in combination with others.

    Raises:
        UserError: Such an option was passed.
    """
    if args.no_trace:
        refuse(args, ("trace", "strict_trace", "compress"), "needs a trace: leave out --no-trace")
        if args.no_control and not (args.json or args.verbose or args.payloads):
            refuse(
                args, ("detail",), "is for the trace and viewers: leave out --no-trace or --no-control, or pass --json"
            )
    if args.json:
        refuse(
            args, ("verbose", "quiet", "local_time"), "is for text: leave it out with --json, or select lines with -f"
        )
    if args.replay is not None or broker_options.BUILT_IN in args.upstream:
        mode = "with --replay" if args.replay is not None else "with the built-in broker"
        refuse(args, ("no_check",), f"is about upstreams, and {mode} there is none: leave it out")


def _captured_answers(args: argparse.Namespace) -> CapturedAnswers:
    from kproxy.outputs.stderr import warn
    from kproxy.replay.answers import CapturedAnswers
    from kproxy.replay.step_reader import read_steps

    if not args.listen:
        raise UserError("--replay needs an address to listen on: pass --listen PORT")
    for name in ("upstream", "advertise", "cap_versions"):
        if getattr(args, name) not in (None, [], False):
            raise UserError(f"--replay takes the place of the brokers: leave out --{name.replace('_', '-')}")
    answers = CapturedAnswers(read_steps(Path(args.replay), warn))
    if not answers:
        raise UserError(f"--replay {args.replay}: no request that can be answered")
    return answers


def _sampled_share(args: argparse.Namespace) -> float | None:
    from kproxy.proxy.sampling import parse_sample

    try:
        return None if args.sample is None else parse_sample(args.sample)
    except ValueError as error:
        raise UserError(f"--sample: {error}") from None


def _end_timeout(args: argparse.Namespace) -> float:
    from kproxy.live.options import END_TIMEOUT_S

    if args.end_timeout is None:
        return END_TIMEOUT_S
    try:
        seconds = float(args.end_timeout)
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= 86400:
        raise UserError(f"--end-timeout: invalid time {args.end_timeout!r}: use 1 to 86400 seconds")
    return seconds


def _inspector_count(args: argparse.Namespace) -> int:
    text = str(args.inspectors)
    if text not in map(str, range(1, MAX_INSPECTORS + 1)):
        raise UserError(f"--inspectors: invalid number of processes {text!r}: use 1 to {MAX_INSPECTORS}")
    return int(text)


def _parse_tcp_address(text: str | None, option: str) -> TcpAddress | None:
    """Parse the value of an option that takes a TCP address to listen on."""
    from kproxy.proxy.address import TcpAddress, parse_listen

    if text is None:
        return None
    try:
        address = parse_listen(text, option)
    except ValueError as error:
        raise UserError(str(error)) from None
    if not isinstance(address, TcpAddress):
        raise UserError(f"{option} does not take {text!r}: use [HOST:]PORT")
    return address


def _open_control_socket(args: argparse.Namespace) -> ControlSocket | None:
    """Open the control socket. If the default one cannot be opened, warn and continue without it."""
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
        warn(f"no control socket: {error}; traffic is still relayed; use --control PATH to put the socket elsewhere")
        return None


def _create_trace_directory(path: Path) -> Path:
    """Create the directory of the trace now, so that a bad path is reported at once."""
    import os

    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "no permission to write")
    except OSError as error:
        raise UserError(f"--trace {path}: {error.strerror}; choose another directory, or use --no-trace") from None
    return path
