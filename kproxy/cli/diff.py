"""`kproxy diff`: compares two recordings, or two live brokers."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import client_options, options
from kproxy.cli.combinations import refuse
from kproxy.cli.damage import InputDamage
from kproxy.errors import CLEAN, FINDINGS, NOTHING, UserError
from kproxy.outputs.stderr import warn

if TYPE_CHECKING:
    from kproxy.client.plan import PlannedRequest
    from kproxy.comparison.kinds import ValueKind
    from kproxy.comparison.traffic import RecordedTraffic

HELP = "compare two traces, captures or live brokers, field by field"

_ADDRESS = re.compile(r".+:\d{1,5}|unix:.+")
_EXAMPLES = """
A and B are both files (captures; traces at --detail full or raw) or directories of them, or both brokers (HOST:PORT).
Two brokers get the same harmless requests, at every version that both serve, or those of --requests: one request a
line, as for kproxy send (Metadata:9 topics=orders) or as JSON.

What differs between any two runs is not compared: ids, addresses, times, sizes, epochs and error messages, by kind
(docs/diff.md lists them). Nor is the number of repeated requests, e.g. Fetch and Heartbeat, of which the values are.

examples:
  kproxy diff kafka.pcap gateway.pcap
  kproxy diff kafka.jsonl gateway.jsonl --may-differ offset --ignore S
  kproxy diff localhost:9092 localhost:19092 --html page.html
  kproxy diff localhost:9092 localhost:19092 --requests requests.txt
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    for name in ("A", "B"):
        options.set_completion(
            parser.add_argument(name.lower(), metavar=name, help="a file, or HOST:PORT"), options.FILE
        )
    parser.add_argument("--may-differ", metavar="KINDS", action="append", default=[],
                        help="do not compare values of these kinds either, e.g. offset")  # fmt: skip
    parser.add_argument("--text-may-differ", metavar="REGEX", type=_compile_pattern,
                        help="parts of names and other text that may differ, e.g. '[0-9]+$'")  # fmt: skip
    parser.add_argument("--compare", metavar="KINDS", action="append", default=[],
                        help="compare values of these kinds too, e.g. node-id,error-message")  # fmt: skip
    options.set_completion(
        parser.add_argument("--requests", metavar="FILE", help="send these requests to the two brokers"), options.FILE
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print a JSON line per difference, then the summary")
    options.set_completion(output.add_argument("--html", metavar="FILE", help="also write an HTML page"), options.FILE)
    options.add_selection_options(parser)
    options.add_capture_options(parser)
    client_options.configure(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from kproxy.comparison.compare import compare_traffic
    from kproxy.comparison.kinds import MAY_DIFFER
    from kproxy.outputs.comparison_report import write_json, write_text
    from kproxy.outputs.finding_selection import Selection

    may_differ = (MAY_DIFFER | _parse_kinds("--may-differ", args.may_differ)) - _parse_kinds("--compare", args.compare)
    shows = Selection(args.select, args.ignore).shows
    is_live = [_is_address(name) for name in (args.a, args.b)]
    if is_live[0] != is_live[1]:
        raise UserError("A and B must both be files, or both be brokers: record the broker first, or replay the file")
    if args.requests and not is_live[0]:
        raise UserError("--requests is for two live brokers: A and B are files")
    if is_live[0]:
        refuse(args, ("port", "keylog"), "is for captures: A and B are brokers")
    else:
        refuse(args, client_options.DESTINATIONS, "is for live brokers: A and B are files")
    damage = InputDamage()
    a, b = _record_live(args) if is_live[0] else (_read_recorded(name, args, damage) for name in (args.a, args.b))
    comparison = compare_traffic(a, b, may_differ=may_differ, complete=is_live[0], shows=shows)
    (write_json if args.json else write_text)(comparison, sys.stdout)
    if args.html:
        from kproxy.html.comparison_page import comparison_page

        try:
            Path(args.html).write_text(comparison_page(comparison), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--html {args.html}: {error.strerror}; choose another file") from None
    return damage.status(FINDINGS if comparison.differences else CLEAN)


def _compile_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text}: not a regular expression: {error}") from None


def _is_address(name: str) -> bool:
    return _ADDRESS.fullmatch(name) is not None and not Path(name).exists()


def _parse_kinds(option: str, texts: list[str]) -> frozenset[ValueKind]:
    from kproxy.comparison.kinds import ValueKind
    from kproxy.filters.errors import nearest

    kinds_by_name = {value_kind.replace(" ", "-"): value_kind for value_kind in ValueKind}
    names = [name.strip().lower().replace(" ", "-") for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in kinds_by_name:
            suggestion = nearest(name, kinds_by_name)
            hint = f"did you mean {suggestion}?" if suggestion else f"use {', '.join(kinds_by_name)}"
            raise UserError(f"{option} {name}: no such kind; {hint}")
    return frozenset(kinds_by_name[name] for name in names)


def _read_recorded(name: str, args: argparse.Namespace, damage: InputDamage) -> RecordedTraffic:
    from kproxy.capture.recordings import read_recording
    from kproxy.comparison.traffic import collect_traffic
    from kproxy.trace.lines import Detail

    lines = read_recording(
        Path(name), Detail.FULL, warn, ports=frozenset(args.port), keylog=args.keylog, report_damage=damage
    )
    traffic = collect_traffic(name, lines, mask_pattern=args.text_may_differ)
    if traffic.lacks_bodies:
        raise UserError(f"{name} has no bodies: record the trace with --detail full, or pass the capture itself")
    if not traffic.requests:
        raise UserError(f"{name} has no Kafka request: check that it is the right file, or pass --port", NOTHING)
    return traffic


def _record_live(args: argparse.Namespace) -> tuple[RecordedTraffic, RecordedTraffic]:
    import asyncio

    from kproxy.comparison.traffic import collect_traffic
    from kproxy.probe.recording import RecordedBroker, send_to_both

    requests = _read_requests(args.requests) if args.requests else None
    if args.timeout <= 0:
        raise UserError(f"--timeout {args.timeout:g}: use a positive number of seconds")
    tls, login = client_options.tls_of(args), client_options.login_of(args)
    a, b = (RecordedBroker(client_options.address_of(name), args.timeout, tls, login) for name in (args.a, args.b))
    asyncio.run(send_to_both(a, b, requests))
    text = args.text_may_differ
    recordings = (
        collect_traffic(name, recorded_broker.lines, includes_client_findings=False, mask_pattern=text)
        for name, recorded_broker in ((args.a, a), (args.b, b))
    )
    return next(recordings), next(recordings)


def _read_requests(name: str) -> list[PlannedRequest]:
    from kproxy.client.plan import from_lines, from_words

    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UserError(f"--requests {name}: {reason}; choose another file") from None
    requests = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.lstrip().startswith("{"):
                requests += from_lines(line, None)
            elif words := shlex.split(line, comments=True):
                requests += from_words(words, None)
        except (UserError, ValueError) as error:
            raise UserError(f"--requests {name}, line {number}: {error}") from None
    if not requests:
        raise UserError(f"--requests {name}: no request in it; use lines such as Metadata:9 topics=orders")
    return requests
