"""`kproxy export-test`: writes a pytest file that reproduces an exchange."""

from __future__ import annotations

import argparse
import base64
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import options
from kproxy.cli.damage import InputDamage
from kproxy.errors import CLEAN, NOTHING, UserError
from kproxy.outputs.stderr import warn

if TYPE_CHECKING:
    from kproxy.comparison.traffic import RecordedExchange
    from kproxy.trace.lines import RequestLine, ResponseLine

HELP = "write a pytest file that reproduces a recorded exchange"

_ID = re.compile(r"#?(.+):(-?\d+)")
_EXAMPLES = """
ID is a connection and a correlation id, as kproxy diff names exchanges: #0:12. kproxy dissect shows both in each row:
#0 > Metadata v9 #12. In a shell, quote it or leave out the #. The test sends the recorded request and fails while the
response has the findings of the recorded one. It needs kproxy, whose pytest plugin has the fixture kproxy_exchange.

examples:
  kproxy export-test gateway.pcap 0:2 --output test_metadata.py
  pytest --kproxy-target localhost:9092 test_metadata.py
  KPROXY_TARGET=localhost:9092 pytest test_metadata.py
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.set_completion(
        parser.add_argument("recording", metavar="TRACE", help="a capture, or a trace at --detail raw"), options.FILE
    )
    parser.add_argument("exchange", metavar="ID", help="the exchange, e.g. 0:12")
    options.set_completion(
        parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)"),
        options.FILE,
    )
    options.add_capture_options(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from dissectors.messages import secret_fields as sensitive
    from dissectors.messages.message import read_request
    from kproxy.client.checked_response import CheckedResponse
    from kproxy.escaping import shell_word
    from kproxy.inspection.explain import explain
    from kproxy.outputs.exported_test import exported_test

    damage = InputDamage()
    exchange = _exchange(args, damage)
    frame = _frame(exchange.request, args.recording)
    if sensitive.may_hold_secrets(read_request(frame)):
        raise UserError(
            f"{exchange.api} requests can have secrets, which kproxy does not write: choose another exchange"
        )
    response = None
    if exchange.response is not None:
        response = CheckedResponse(explain(_frame(exchange.response, args.recording), frame))
        for finding in exchange.response.findings:
            if finding.code not in response.findings and finding.blame != "client":
                warn(f"{finding.code} depends on other exchanges: the test does not check it")
    command = f"kproxy export-test {shell_word(Path(args.recording).name)} {shell_word(args.exchange.lstrip('#'))}"
    text = exported_test(command, explain(frame), response)
    if args.output is None:
        sys.stdout.write(text)
        return damage.status(CLEAN)
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--output {args.output}: {error.strerror}; choose another file") from None
    return damage.status(CLEAN)


def _exchange(args: argparse.Namespace, damage: InputDamage) -> RecordedExchange:
    from kproxy.capture.recordings import read_recording
    from kproxy.comparison.traffic import collect_traffic
    from kproxy.trace.lines import Detail

    match = _ID.fullmatch(args.exchange)
    if match is None:
        raise UserError(f"invalid exchange {args.exchange!r}: use CONNECTION:CORRELATION_ID, e.g. 0:12")
    connection, correlation_id = match[1], int(match[2])
    lines = read_recording(
        Path(args.recording), Detail.RAW, warn, ports=frozenset(args.port), keylog=args.keylog, report_damage=damage
    )
    traffic = collect_traffic(args.recording, lines)
    for exchange in (exchange for connection in traffic.connections for exchange in connection.exchanges):
        connection_names = exchange.request.connection_id, exchange.request.connection_id.rpartition("-")[2]
        if connection in connection_names and exchange.request.correlation_id == correlation_id:
            return exchange
    raise UserError(
        f"{args.recording} has no exchange {args.exchange}: kproxy dissect shows connections (#0) and correlation ids",
        NOTHING,
    )


def _frame(line: RequestLine | ResponseLine, name: str) -> bytes:
    if line.frame is None:
        hint = f"was not decoded: {line.not_decoded}" if line.not_decoded else "record it with --detail raw"
        raise UserError(f"{name} does not have the bytes of this exchange: {hint}")
    return base64.b64decode(line.frame)
