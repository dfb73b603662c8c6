"""`kproxy explain`: decodes a frame byte by byte."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kproxy.cli import options, payload_options
from kproxy.cli.combinations import refuse
from kproxy.errors import CLEAN, FINDINGS, USAGE, UserError
from kproxy.outputs.stderr import print_message, warn

if TYPE_CHECKING:
    from dissectors.failures import Failure
    from kproxy.inspection.explain import AnsweredRequest, Explanation
    from kproxy.inspection.record_values import RecordValues
    from kproxy.outputs.finding_selection import Selection
    from kproxy.trace.lines import FindingEntry

HELP = "decode a frame given as hex, byte by byte"

_MAX_INPUT = 256 << 20
_MISSING = "the length prefix is missing; offsets count from the first byte given"
_EXAMPLES = """
Paste the frame as it is: hex, with or without spaces and 0x, base64, an array or string of a programming language, or a
dump of xxd, hexdump -C, Wireshark or tcpdump. Several frames, packets with their headers, and both directions of a
connection are accepted; a response is decoded by its request. Frames may be cut off at either end.

examples:
  kproxy explain 00 00 00 12 00 03 00 00 00 00 00 01 00 04 74 65 73 74 00 00 00 00
  xxd request.bin | kproxy explain -
  kproxy explain --api ApiVersions --version 0 00000010 0000002a 0000 00000001 0012 0000 0003
  kproxy explain --request "$(cat request.hex)" - < response.hex
  kproxy explain --payloads --schemas schemas/ - < produce.hex
  kproxy explain --json - < frames.jsonl        # {"id", "frame", "request"?, "type"?, "api_key"?, "version"?} a line

If a frame triggers a bug in kproxy, it gets finding K007 (status 1), and the next frame is decoded.
The length prefix may be missing, as in many logs: a note reports it (--json: "length_prefix": "missing"), and offsets
count from the first byte given.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("hex", nargs="+", help="frame as hex, with its length prefix; '-' for standard input")
    parser.add_argument("--request", metavar="HEX", help="decode the frame as the response to this request frame")
    parser.add_argument("--api", metavar="NAME", help="decode the frame as a response of this API (name or key)")
    parser.add_argument("--version", metavar="N", type=int, dest="api_version", help="API version of the response")
    parser.add_argument(
        "--json", action="store_true", help="print JSON; with '-', also accepts JSON Lines and answers each line"
    )
    payload_options.configure(parser, masks=False)
    options.add_selection_options(parser)
    options.add_fail_on_option(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from kproxy.capture.pasted_packets import tcp_connections
    from kproxy.inspection.pasted_frames import MIN_FRAME, PastedFrame, find_frames, pair_frames

    selection = options.selection_of(args)
    record_values = payload_options.record_values_of(args)
    if args.hex == ["-"]:
        text = sys.stdin.read(_MAX_INPUT)
        if args.json and text.lstrip().startswith("{"):
            refuse(args, ("request", "api"), "is for one frame: put it into each line")
            return _answer_json_lines(text, selection, record_values)
    else:
        text = " ".join(args.hex)
    pieces, answered_request = _unhex(text), _answered_request(args)
    connections = tcp_connections(pieces)
    if connections is not None or len(pieces) > 1:
        frames, problems = [], []
        for streams, lone_server in [(pieces, None)] if connections is None else connections:
            if lone_server is not None and answered_request is None:
                raise UserError(
                    f"these bytes went from {lone_server[0]} to {lone_server[1]}: a response, which does not name its "
                    "API; pass --api API --version VERSION, or paste the packet with its request too"
                )
            if lone_server is not None:
                framed_input = find_frames(streams[0], answered_request)
                frames += [PastedFrame(frame, answered_request) for frame in framed_input.frames]
                problems += [sentence for sentence in (framed_input.note, framed_input.problem) if sentence]
                continue
            frames_and_problems = pair_frames(streams, answered_request)
            frames += frames_and_problems[0]
            problems += frames_and_problems[1]
        if not frames:
            raise UserError("these packets have no TCP payload: nothing to decode")
        is_prefix_missing, notes = False, problems
    else:
        framed_input = find_frames(pieces[0], answered_request)
        if len(framed_input.frames[-1]) < MIN_FRAME:
            size = len(pieces[0])
            raise UserError(
                f"too short for a frame: {size} byte{'s' * (size != 1)} given, but the length prefix and the "
                f"shortest header take {MIN_FRAME}"
            )
        frames = [PastedFrame(frame, answered_request) for frame in framed_input.frames]
        is_prefix_missing, problems = framed_input.missing, [framed_input.problem] if framed_input.problem else []
        notes = [
            note
            for note in (_MISSING if framed_input.missing else None, framed_input.note, framed_input.problem)
            if note
        ]
    if not args.json:
        for note in notes:
            print_message(f"note: {note}")
    status = FINDINGS if problems and selection.fails("error") else CLEAN
    for number, (frame, request) in enumerate(frames):
        if number and not args.json:
            print()  # noqa: T201
        try:
            shown_status = _show(frame, request, selection, record_values, missing=is_prefix_missing, as_json=args.json)
            status = max(status, shown_status)
        except UserError as error:
            if len(frames) == 1:
                raise
            status = USAGE
            warn(f"frame {number + 1}: {error}")
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001  # a bug triggered by this frame: continue with the others
            failure, findings = _failure_and_finding(error)
            status = max(status, FINDINGS if selection.fails("error") else CLEAN)
            if args.json:
                sys.stdout.buffer.write(_encode(_error_json(None, str(failure), findings)))
            else:
                warn(f"frame {number + 1}: {failure}; {findings[0].hint}")
    return status


def _show(
    frame: bytes,
    answered_request: AnsweredRequest,
    selection: Selection,
    record_values: RecordValues | None,
    *,
    missing: bool,
    as_json: bool,
) -> int:
    from kproxy.outputs.explained_frame import explanation_json, is_failure, selected_findings, write_explanation
    from kproxy.outputs.values import write_values

    explanation = _add_record_values(_explain(frame, answered_request, missing=missing), record_values)
    findings = selected_findings(explanation, selection)
    if as_json:
        sys.stdout.buffer.write(_encode({"id": None, **explanation_json(explanation, findings)}))
    else:
        write_explanation(explanation, findings, sys.stdout)
        if record_values is not None:
            write_values(explanation.body, sys.stdout)
    return FINDINGS if is_failure(explanation, findings, selection) else CLEAN


def _add_record_values(explanation: Explanation, record_values: RecordValues | None) -> Explanation:
    if record_values is None:
        return explanation
    from dissectors.records.allowance import Allowance
    from kproxy.inspection.explain import add_decoded_records
    from kproxy.inspection.record_budget import MAX_PER_FRAME

    decoded = record_values.decode(explanation.message, explanation.body, lambda _: None, Allowance(MAX_PER_FRAME))
    return add_decoded_records(explanation, decoded)


def _unhex(text: str) -> list[bytes]:
    from dissectors.hexdump import HexError, unhex_all

    try:
        pieces = unhex_all(text)
    except HexError as error:
        raise UserError(str(error)) from None
    if not any(pieces):
        raise UserError("no bytes given: pass a frame as hex, or '-' to read standard input")
    return pieces


def _answered_request(args: argparse.Namespace) -> AnsweredRequest:
    """Return the request that the frame answers (API key and version, or a frame); None if the frame is a request."""
    from kproxy.client.request import api_of
    from kproxy.inspection.pasted_frames import find_frames

    if args.request is not None:
        if args.api is not None:
            raise UserError("use --request or --api, not both")
        return find_frames(_unhex(args.request)[0]).frames[0]
    if args.api is None:
        if args.api_version is not None:
            raise UserError("--version needs --api NAME")
        return None
    api = api_of(args.api)
    if args.api_version is None:
        raise UserError(f"--api {api.name} needs --version N, {api.min_version} to {api.max_version}")
    return api.key, args.api_version


def _explain(frame: bytes, answered_request: AnsweredRequest, *, missing: bool) -> Explanation:
    from kproxy.inspection.explain import explain, is_request, possible_apis

    explanation = explain(frame, answered_request, prefix_missing=missing)
    message = explanation.message
    diagnosis = message.diagnosis
    is_unlikely = diagnosis is not None and (diagnosis.edit.kind == "body_of_api" or not is_request(frame))
    is_doubtful = explanation.error or message.opaque or is_unlikely
    if answered_request is None and is_doubtful and (possible := possible_apis(frame)):
        names = ", ".join(f"--api {name} --version {versions[-1]}" for name, versions in possible[:5])
        more_text = f" ({len(possible) - 5} more fit)" if len(possible) > 5 else ""
        sentence = f"a response does not name its API: pass --request HEX, or {names}{more_text}"
        if missing or not is_request(frame):
            raise UserError(f"this is not a request, and {sentence}")
        print_message(f"note: decoded as a request; if it is a response, {sentence}")
    return explanation


def _encode(value: dict[str, Any]) -> bytes:
    from kproxy.trace.encoding import encode_json

    return encode_json(value) + b"\n"


def _answer_json_lines(text: str, selection: Selection, record_values: RecordValues | None) -> int:
    """Answer JSON Lines with JSON Lines; return the exit status.

    An invalid line is answered with an error and makes the exit status 2.
    """
    from kproxy.outputs.explained_frame import explanation_json, is_failure, selected_findings

    status = CLEAN
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            explanation = _add_record_values(_explain_line(line), record_values)
            findings = selected_findings(explanation, selection)
            answer = _encode({"id": _line_id(line), **explanation_json(explanation, findings)})
            line_status = FINDINGS if is_failure(explanation, findings, selection) else CLEAN
        except UserError as error:
            line_status = USAGE
            answer = _encode(_error_json(_line_id(line), str(error), []))
        except Exception as error:  # noqa: BLE001  # a bug triggered by this line: continue with the others
            failure, findings = _failure_and_finding(error)
            line_status = FINDINGS if selection.fails("error") else CLEAN
            answer = _encode(_error_json(_line_id(line), str(failure), findings))
        status = max(status, line_status)
        sys.stdout.buffer.write(answer)
    return status


def _error_json(line_id: object, message: str, findings: list[FindingEntry]) -> dict[str, Any]:
    from kproxy.verdict.as_json import finding_as_json

    error = {"message": message, "offset": 0, "path": ""}
    return {"id": line_id, "error": error, "findings": [finding_as_json(finding) for finding in findings]}


def _failure_and_finding(error: Exception) -> tuple[Failure, list[FindingEntry]]:
    """Return the failure and the finding for a bug in kproxy that `kproxy.inspection.explain` does not report itself.

    They omit the text of the exception, which may contain part of a secret.
    """
    from dissectors.failures import Failure
    from kproxy.inspection.event_lines import failure_entry

    failure = replace(Failure.of("explaining a frame", error), text="")
    return failure, [failure_entry(failure)]


def _line_id(line: str) -> object:
    import msgspec

    try:
        return msgspec.json.decode(line, type=dict[str, Any]).get("id")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _explain_line(line: str) -> Explanation:
    import msgspec

    from kproxy.inspection.explain import explain
    from kproxy.inspection.pasted_frames import find_frames

    try:
        request_line = msgspec.json.decode(line, type=dict[str, Any])
        frame = bytes.fromhex(request_line["frame"])
        request = bytes.fromhex(request_line["request"]) if request_line.get("request") else None
    except (msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
        raise UserError(f'invalid line, expected {{"id", "frame": hex, "request": hex?}}: {error}') from None
    answered_request: AnsweredRequest = request
    if answered_request is None and request_line.get("type") == "response":
        try:
            answered_request = int(request_line["api_key"]), int(request_line["version"])
        except (KeyError, TypeError, ValueError):
            raise UserError('a response needs "request", or "api_key" and "version"') from None
    framed_input = find_frames(frame, answered_request)
    return explain(
        framed_input.frames[0] if framed_input.missing else frame, answered_request, prefix_missing=framed_input.missing
    )
