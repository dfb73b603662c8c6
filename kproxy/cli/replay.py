"""`kproxy replay`: sends captured requests to a broker again, and compares the responses."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import client_options, options
from kproxy.cli.damage import InputDamage
from kproxy.errors import CLEAN, FINDINGS, NOTHING, UserError
from kproxy.outputs.stderr import warn

if TYPE_CHECKING:
    from kproxy.client.connection import BrokerConnection
    from kproxy.proxy.address import Address
    from kproxy.replay.steps import Step

HELP = "send captured requests again, and compare the responses"

_EXAMPLES = """
Each request is sent after the responses that it followed in the capture, on as many connections as there. kproxy
replaces what this broker chose differently: member ids, generations, producer ids and epochs, topic ids, leader epochs,
fetch sessions. All other requests are sent as they were captured, also those that create and delete topics. Requests
with secrets, SASL logins and requests between brokers are left out; pass --sasl-mechanism to log in.

examples:
  kproxy replay capture.pcap localhost:9092 --speed max
  kproxy replay kproxy-trace/ localhost:9092                     # recorded with kproxy --detail raw
  kproxy replay capture.pcap localhost:9092 -f 'api!=DeleteTopics'
  kproxy replay capture.pcap localhost:9092 --json | jq 'select(.outcome == "different")'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.set_completion(
        parser.add_argument("file", metavar="FILE", help="pcap, pcapng or trace, or a directory of these"), options.FILE
    )
    parser.add_argument("address", metavar="HOST:PORT", help="the broker")
    parser.add_argument("--speed", metavar="N", default="1",
                        help="10: ten times as fast as captured; max: no pauses (default: %(default)s)")  # fmt: skip
    parser.add_argument("--map-offsets", action="store_true",
                        help="replace offsets, too, for a broker whose topics already have records")  # fmt: skip
    parser.add_argument("--shift-times", action="store_true",
                        help="produce records as if they were new: brokers delete old ones")  # fmt: skip
    parser.add_argument(
        "-f", "--filter", metavar="FILTER", help="send only matching requests, e.g. 'api!=DeleteTopics'"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line per request, then one with the summary")
    options.add_capture_options(parser)
    client_options.configure(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    speed = _parse_speed(args.speed)
    if args.timeout <= 0:
        raise UserError(f"--timeout {args.timeout:g}: use a positive number of seconds")
    address, tls, login = (
        client_options.address_of(args.address),
        client_options.tls_of(args),
        client_options.login_of(args),
    )
    damage = InputDamage()
    steps = _read_steps(args, damage)

    import asyncio

    from kproxy.client.brokers import fetch_brokers
    from kproxy.client.connection import connect
    from kproxy.client.login import log_in
    from kproxy.client.versions import fetch_versions
    from kproxy.outputs.replay_report import ReplayReport
    from kproxy.replay.exchange import Replayer, ReplayOutcome
    from kproxy.replay.routes import ClusterRoutes
    from kproxy.replay.run import Replay

    async def open_connection(broker: Address | None = None) -> BrokerConnection:
        connection = await connect(broker or address, args.timeout, tls)
        if login is not None:
            await log_in(connection, login, await fetch_versions(connection))
        return connection

    async def find_routes() -> ClusterRoutes | None:
        if all(step.exchange is None or step.exchange.left_out for step in steps):
            return None
        connection = await open_connection()
        try:
            brokers = await fetch_brokers(connection)
        except UserError as error:
            warn(f"{error}; all requests go to {args.address}")
            return None
        finally:
            connection.close()
        return ClusterRoutes(steps, brokers) if len(brokers) > 1 else None

    report = ReplayReport(sys.stdout, as_json=args.json)
    shift_ms = time.time_ns() // 1_000_000 - steps[0].at // 1_000_000 if args.shift_times and steps else 0

    async def play() -> None:
        replayer = Replayer(map_offsets=args.map_offsets, shift_ms=shift_ms, routes=await find_routes())
        replay = Replay(open_connection, replayer, speed=speed, timeout_s=args.timeout)
        async for result in replay.run(steps):
            report.add(result)

    asyncio.run(play())
    report.end()
    success_status = CLEAN if report.sent else NOTHING
    return damage.status(FINDINGS if report.counts[ReplayOutcome.DIFFERENT] else success_status)


def _read_steps(args: argparse.Namespace, damage: InputDamage) -> list[Step]:
    from kproxy.outputs.line_outputs import filter_for
    from kproxy.replay.step_reader import read_steps
    from kproxy.trace.encoding import as_mapping

    parsed_filter = filter_for(args.filter)
    if parsed_filter is not None and parsed_filter.reads_records:
        raise UserError("kproxy replay does not decode records: filter by other fields")
    predicate = None if parsed_filter is None else lambda line: parsed_filter.matches(as_mapping(line))
    return read_steps(
        Path(args.file), warn, predicate, ports=frozenset(args.port), keylog=args.keylog, report_damage=damage
    )


def _parse_speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0
    if not 0 < speed < float("inf"):
        raise UserError(f"--speed {text}: use a positive number, e.g. 1 or 10, or max")
    return speed
