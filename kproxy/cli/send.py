"""`kproxy send`: sends requests to a broker, and shows requests and responses byte by byte."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kproxy.cli import client_options, options
from kproxy.cli.combinations import refuse
from kproxy.errors import CLEAN, FINDINGS, UserError
from kproxy.outputs.stderr import warn

if TYPE_CHECKING:
    from kproxy.client.exchange import SentRequest
    from kproxy.client.plan import PlannedRequest
    from kproxy.outputs.finding_selection import Selection

HELP = "send requests to a broker, and show both sides byte by byte"

_MAX_INPUT = 64 << 20
_COMPLETION: dict[str, str | dict[str, str]] = {
    "bash": "_kproxy_send_words",
    "zsh": "_kproxy_send_words",
    "fish": "(command kproxy send --complete (commandline -cp))",
    "preamble": {
        "bash": """
_kproxy_send_words() {
  compgen -W "$(command kproxy send --complete "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)" -- "$1"
}""",
        "zsh": """
_kproxy_send_words() {
  local -a found=(${(f)"$(command kproxy send --complete "$LBUFFER" 2>/dev/null)"})
  compadd -S '' -- ${(M)found:#*=}
  compadd -- ${found:#*=}
}""",
    },
}
_EXAMPLES = """
A request is an API, with :VERSION if wanted, and its fields as FIELD=VALUE. Fields that are not given have Kafka's
defaults. Without a version, kproxy asks the broker (ApiVersions) and uses the newest that both know. Several requests
are pipelined: all are sent before the first response is read.

  topics=orders,payments                an array; a struct can be given by its name (or its first field) alone
  topics[0].partitions=0,1              one element; without an index, every element so far
  topics='[{"name": "orders"}]'         JSON, for fields and, without FIELD=, for the whole body
  records=text  records=hex:00..        a record batch with this value; bytes: text, hex:.. or base64:..
  records='{"key": "k", "value": "v", "headers": {"h": "1"}}'

examples:
  kproxy send localhost:9092 Metadata -v 0 topics=orders
  kproxy send localhost:9092 ApiVersions Metadata:9 topics=orders FindCoordinator:4 coordinator_keys=my-group
  kproxy send localhost:9092 Produce:9 acks=1 timeout_ms=1000 topic_data=orders \\
      topic_data.partition_data=0 topic_data.partition_data.records=hello
  kproxy send localhost:9092 Metadata -v 9 topics=orders --edit flexibility:fixed   # write it wrong (kproxy quirks)
  kproxy send localhost:9092 --raw '00000016 0003 0000 00000001 0000 00000001 0006 6f7264657273'
  kproxy send localhost:9092 - < requests.jsonl          # {"api", "version"?, "body"?, "edit"?} a line
  kproxy send --encode Metadata -v 0 topics=orders | xxd -r -p | nc localhost 9092 | xxd |
      kproxy explain --api Metadata --version 0 -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "kproxy send [options] HOST:PORT API[:VERSION] [FIELD=VALUE ...] [API[:VERSION] ...]"
    words = parser.add_argument(
        "words", nargs="*", metavar="REQUEST",
        help="the broker, then the requests; '-' reads requests as JSON Lines from standard input",
    )  # fmt: skip
    options.set_completion(words, _COMPLETION)
    parser.add_argument("--complete", metavar="LINE", help=argparse.SUPPRESS)  # for the scripts of kproxy completion
    parser.add_argument("-v", "--api-version", type=int, metavar="N", dest="api_version",
                        help="version of requests without :VERSION (default: the newest of the broker)")  # fmt: skip
    parser.add_argument(
        "--edit", metavar="EDIT", help="write the request incorrectly, e.g. moved:topics:last (docs/edits.md)"
    )
    parser.add_argument("--raw", metavar="HEX", help="send these bytes exactly as given; '-' for standard input")
    parser.add_argument("--encode", action="store_true", help="print the requests as hex instead of sending them")
    parser.add_argument(
        "--client-id", metavar="ID", default="kproxy", help="the client id in the header (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line per request, with its response")
    options.add_selection_options(parser)
    options.add_fail_on_option(parser)
    client_options.configure(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from kproxy.client.plan import encode_requests

    if args.complete is not None:
        from kproxy.client.completion import candidates

        print("\n".join(candidates(args.complete)))  # noqa: T201
        return CLEAN
    selection = options.selection_of(args)
    if args.timeout <= 0:
        raise UserError(f"--timeout {args.timeout:g}: use a positive number of seconds")
    words = list(args.words)
    if args.raw:
        refuse(args, ("edit", "client_id", "api_version"), "has no effect with --raw, which sends bytes as they are")
        if words if args.encode else len(words) > 1:
            raise UserError("--raw sends bytes as they are: pass no API or fields with it")
    if args.encode:
        sending_options = ("json", "select", "ignore", "fail_on", *client_options.DESTINATIONS)
        refuse(args, sending_options, "has no effect with --encode, which sends nothing")
        frames = _read_raw_frames(args) if args.raw else encode_requests(_plan_requests(args, words), args.client_id)
        print("\n".join(frame.hex() for frame in frames))  # noqa: T201
        return CLEAN
    if not words:
        raise UserError("pass the broker's address and a request, e.g. kproxy send localhost:9092 ApiVersions")
    address, tls, login = (
        client_options.address_of(words[0]),
        client_options.tls_of(args),
        client_options.login_of(args),
    )
    raw_frames = _read_raw_frames(args) if args.raw else None
    requests = [] if raw_frames is not None else _plan_requests(args, words[1:])

    import asyncio

    async def send() -> list[SentRequest]:
        from kproxy.client.connection import connect
        from kproxy.client.exchange import send_pipelined
        from kproxy.client.login import log_in
        from kproxy.client.plan import needs_versions
        from kproxy.client.versions import fetch_versions

        connection = await connect(address, args.timeout, tls)
        try:
            served_versions = await fetch_versions(connection) if login or needs_versions(requests) else {}
            if login is not None:
                await log_in(connection, login, served_versions)
            frames = (
                raw_frames
                if raw_frames is not None
                else encode_requests(requests, args.client_id, served_versions, connection.next_correlation_id)
            )
            return await send_pipelined(connection, frames)
        finally:
            connection.close()

    return max(_show(exchange, selection, as_json=args.json) for exchange in asyncio.run(send()))


def _plan_requests(args: argparse.Namespace, words: Sequence[str]) -> list[PlannedRequest]:
    from kproxy.client.plan import from_lines, from_words

    if words == ["-"]:
        if args.edit:
            raise UserError('--edit applies to one request: put "edit" into its line')
        return from_lines(sys.stdin.read(_MAX_INPUT), args.api_version)
    return from_words(words, args.api_version, args.edit)


def _read_raw_frames(args: argparse.Namespace) -> list[bytes]:
    """Return the bytes of ``--raw`` as whole frames, followed by the remainder, if any."""
    from dissectors.hexdump import HexError, unhex_all
    from kproxy.client.exchange import split_frames

    try:
        data = b"".join(unhex_all(sys.stdin.read(_MAX_INPUT) if args.raw == "-" else args.raw))
    except HexError as error:
        raise UserError(f"--raw: {error}") from None
    if not data:
        raise UserError("--raw: no bytes given")
    frames, remainder = split_frames(data)
    return [*frames, remainder] if remainder else frames


def _show(exchange: SentRequest, selection: Selection, *, as_json: bool) -> int:
    """Print one exchange; return the exit status for it."""
    from kproxy.inspection.explain import explain
    from kproxy.outputs.explained_frame import explanation_json, is_failure, selected_findings, write_explanation
    from kproxy.trace.encoding import encode_json

    status = FINDINGS if exchange.problem else CLEAN
    request = explain(exchange.request)
    entry: dict[str, Any] = {
        "request": explanation_json(request, []), "response": None, "latency_ms": exchange.latency_ms,
        "problem": exchange.problem,
    }  # fmt: skip
    if not as_json:
        write_explanation(request, [], sys.stdout)
        print()  # noqa: T201
    if exchange.response is not None:
        response = explain(exchange.response, exchange.request)
        findings = selected_findings(response, selection)
        if is_failure(response, findings, selection):
            status = FINDINGS
        entry["response"] = explanation_json(response, findings)
        if not as_json:
            write_explanation(response, findings, sys.stdout, f", after {exchange.latency_ms:.1f} ms")
            print()  # noqa: T201
    if as_json:
        sys.stdout.buffer.write(encode_json(entry) + b"\n")
        sys.stdout.flush()
    elif exchange.problem:
        sys.stdout.flush()
        warn(exchange.problem)
    return status
