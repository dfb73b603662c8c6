"""Explains a frame byte by byte: every field with its span, value and meaning, and the findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dissectors import embedded, rules, schemas
from dissectors.connections.connection import is_plausible_request
from dissectors.connections.events import RecordsDecoded, RequestReceived, ResponseReceived
from dissectors.embedded import redaction
from dissectors.failures import Failure
from dissectors.findings import Finding
from dissectors.messages import value_annotations
from dissectors.messages.message import Message, api_name, read_request, read_response, walk_message
from dissectors.trackers.state import ConnectionState, RunState
from dissectors.wire.errors import DecodeError, TooManyElements
from dissectors.wire.layout import layout
from dissectors.wire.node import Node
from kproxy.inspection.record_budget import RecordBudget

if TYPE_CHECKING:
    from kproxy.inspection.record_values import DecodedRecords

#: The request of a response: its API key and version, or its frame. None if the frame is a request itself.
AnsweredRequest: TypeAlias = tuple[int, int] | bytes | None


#: The names of rows for bytes after the last field, and for bytes of fields beyond `MAX_ROWS`.
NOT_DECODED = "(not decoded)"
NOT_SHOWN = "(not shown)"

#: The maximum number of fields shown. A frame of 1 MB may have a million.
MAX_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """The bytes of a field, or of the count or null marker before one.

    Rows follow each other without gaps. Fields from decompressed bytes follow the row of the compressed bytes and have
    its span.
    """

    path: str
    start: int
    end: int
    value: Any
    meaning: str | None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explained frame. `body` is as in a trace at full detail. Secrets are redacted everywhere.

    Offsets count from the first byte of `frame`: the length prefix, or the byte after it if the prefix was missing.
    """

    message: Message
    frame: bytes
    body: dict[str, Any]
    rows: list[ExplainedRow]
    error: DecodeError | None
    findings: list[Finding]
    prefix_missing: bool = False


def explain(
    frame: bytes,
    answered_request: AnsweredRequest = None,
    *,
    request: bytes | None = None,
    prefix_missing: bool = False,
) -> Explanation:
    """Explain one frame. It must have a length prefix.

    Args:
        frame: A request, or a response if `answered_request` or `request` is given.
        answered_request: The request that a response answers.
        request: The frame of that request, if known. The rules and the diagnosis use it too.
        prefix_missing: The caller added the length prefix, so offsets do not count it.
    """
    explanation = _explain(frame, answered_request if request is None else request)
    return _without_prefix(explanation) if prefix_missing else explanation


def add_decoded_records(explanation: Explanation, decoded: DecodedRecords) -> Explanation:
    """Return the explanation with decoded records in its body, and with the findings about them."""
    connection_state = ConnectionState(RunState(rules.trackers()))
    event = RecordsDecoded(0, 0, explanation.message, decoded.parts)
    connection_state.observe(event)
    findings = explanation.findings + rules.check(event, connection_state)
    return replace(explanation, body=decoded.body or {}, findings=findings)


def _explain(frame: bytes, answered_request: AnsweredRequest) -> Explanation:
    connection_state = ConnectionState(RunState(rules.trackers()))
    event: RequestReceived | ResponseReceived
    if isinstance(answered_request, bytes):
        request_event = RequestReceived(0, 0, len(answered_request) - 4, read_request(answered_request))
        connection_state.observe(request_event)
        rules.check(request_event, connection_state)
        event = _response_event(frame, request_event)
    elif answered_request is not None:
        key, version = answered_request
        unseen = Message(b"", True, key, api_name(key), version, {}, {}, 0, 0, layout("RequestHeader", 1),
                         opaque="not given")  # fmt: skip
        event = _response_event(frame, RequestReceived(0, 0, 0, unseen))
    else:
        event = RequestReceived(0, 0, len(frame) - 4, read_request(frame))
    connection_state.observe(event)
    findings = rules.check(event, connection_state)
    message = event.message
    assert message is not None  # only a response without a request has none
    try:
        return _build_explanation(frame, message, findings)
    except Exception as error:  # noqa: BLE001
        failure = Failure.of("explaining a frame", error)
        connection_state.failures.append(failure)
        return _build_explanation(
            frame, message.without_body(failure), findings + rules.failure_findings(event, connection_state)
        )


def _build_explanation(frame: bytes, message: Message, findings: list[Finding]) -> Explanation:
    tree = walk_message(message, most_nodes=MAX_ROWS)
    cut_off = isinstance(tree.error, TooManyElements)
    if body := next((node for node in tree.nodes if node.name == "body"), None):
        embedded.expand_nodes(message, body)
    value_annotations.annotate(tree.nodes, message)
    spans = redaction.redact_tree(message, tree.nodes)
    redacted = bytearray(frame)
    for start, end in spans:
        redacted[start:end] = bytes(end - start)
    rows = list(_with_undecoded_row(_rows(tree.nodes, ""), len(frame), NOT_SHOWN if cut_off else NOT_DECODED))
    with RecordBudget().allowance(len(frame), at=0, decodes_values=True) as allowance:
        presentable = embedded.presentable_body(message, allowance=allowance)
    return Explanation(message, bytes(redacted), presentable, rows, message.error if cut_off else tree.error, findings)


def _response_event(frame: bytes, request: RequestReceived) -> ResponseReceived:
    message = read_response(frame, request.message.api_key, request.message.version)
    return ResponseReceived(0, 0, len(frame) - 4, message.correlation_id, message, request)


def _without_prefix(explanation: Explanation) -> Explanation:
    """Return the explanation with offsets that do not count the length prefix."""
    rows = [replace(row, start=max(row.start - 4, 0), end=row.end - 4) for row in explanation.rows if row.end > 4]
    findings = []
    for finding in explanation.findings:
        problem = finding.problem
        if problem.start is not None and problem.end is not None:
            problem = replace(problem, start=max(problem.start - 4, 0), end=max(problem.end - 4, 0))
        findings.append(replace(finding, problem=problem))
    return replace(
        explanation, frame=explanation.frame[4:], rows=rows, findings=findings, prefix_missing=True
    )  # fmt: skip


def _rows(nodes: list[Node], prefix: str, *, decompressed: bool = False) -> Iterator[ExplainedRow]:
    for node in nodes:
        if node.name.isdigit():
            path = f"{prefix}[{node.name}]"
        elif node.name == "body" and not prefix:
            path = ""
        else:
            path = f"{prefix}.{node.name}" if prefix else node.name
        if not node.children:
            if node.end > node.start or node.value is not None:
                yield ExplainedRow(path, node.start, node.end, node.value, node.meaning)
            continue
        first = node.children[0]
        if first.start > node.start:
            yield ExplainedRow(path, node.start, first.start, len(node.children), node.meaning, counts=True)
        is_decompressed = decompressed or (
            len(node.children) > 1 and (first.start, first.end) == (node.start, node.end)
        )
        if is_decompressed and not decompressed:
            yield ExplainedRow(
                path, node.start, node.end, len(node.children), node.meaning or "compressed", counts=True
            )
        yield from _rows(node.children, path, decompressed=is_decompressed)


def _with_undecoded_row(rows: Iterator[ExplainedRow], size: int, name: str) -> Iterator[ExplainedRow]:
    """Yield the rows, plus one named `name` for any bytes after the last field."""
    end = 0
    for row in rows:
        end = max(end, row.end)
        yield row
    if end < size:
        yield ExplainedRow(name, end, size, None, None)


def is_request(frame: bytes) -> bool:
    """Whether a frame looks like a request."""
    return len(frame) >= 14 and is_plausible_request(frame, 0)


def possible_apis(frame: bytes) -> list[tuple[str, list[int]]]:
    """Return the APIs and versions whose response layout decodes the whole frame, in the order of API keys."""
    matching_apis: list[tuple[str, list[int]]] = []
    for api in schemas.apis():
        versions = []
        for version in range(api.min_version, api.max_version + 1):
            message = read_response(frame, api.key, version)
            if message.error is None and not message.trailing and not message.decode_warnings:
                versions.append(version)
        if versions:
            matching_apis.append((api.name, versions))
    return matching_apis
