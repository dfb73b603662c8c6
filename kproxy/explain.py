"""A frame byte by byte: every field with its span, value and meaning, and what the rules say of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dissectors import embedded, meanings, rules, schemas, secrets
from dissectors.connection import plausible_request
from dissectors.conversation import Conversation
from dissectors.errors import DecodeError
from dissectors.events import RequestReceived, ResponseReceived
from dissectors.failures import Failure
from dissectors.findings import Finding
from dissectors.layout import layout
from dissectors.message import Message, api_name, read_request, read_response, walk_message
from dissectors.node import Node


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes that belong together: a field, or the count or mark before one.

    Rows follow each other without a gap. Those of fields that were read from decompressed bytes follow the row of the
    compressed ones and have the same span.
    """

    path: str
    start: int
    end: int
    value: Any
    meaning: str | None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """What there is to say of a frame. `body` is as in the trace at full detail, secrets redacted everywhere."""

    message: Message
    frame: bytes
    body: dict[str, Any]
    rows: list[Row]
    error: DecodeError | None
    findings: list[Finding]


def explain(frame: bytes, *, asked: tuple[int, int] | None = None, request: bytes | None = None) -> Explanation:
    """Read one frame with its length prefix.

    Args:
        frame: A request, or a response if `asked` or `request` is given.
        asked: API key and version of the request that a response answers.
        request: That request itself, a frame too: the rules and the diagnosis look at it.
    """
    conversation = Conversation()
    event: RequestReceived | ResponseReceived
    if request is not None:
        answered = RequestReceived(0, 0, len(request) - 4, read_request(request))
        conversation.hear(answered)
        rules.check(answered, conversation)
        event = _answer(frame, answered)
    elif asked is not None:
        unseen = Message(b"", True, asked[0], api_name(asked[0]), asked[1], {}, {}, 0, 0, layout("RequestHeader", 1),
                         opaque="not given")  # fmt: skip
        event = _answer(frame, RequestReceived(0, 0, 0, unseen))
    else:
        event = RequestReceived(0, 0, len(frame) - 4, read_request(frame))
    conversation.hear(event)
    findings = rules.check(event, conversation)
    message = event.message
    assert message is not None  # only a response that nobody asked for has none
    try:
        return _explained(frame, message, findings)
    except Exception as error:  # noqa: BLE001
        failure = Failure.of("explaining a frame", error)
        conversation.failures.append(failure)
        return _explained(frame, message.unread(failure), findings + rules.failed(event, conversation))


def _explained(frame: bytes, message: Message, findings: list[Finding]) -> Explanation:
    tree = walk_message(message)
    if body := next((node for node in tree.nodes if node.name == "body"), None):
        embedded.expand_nodes(message, body)
    meanings.annotate(tree.nodes, message)
    spans = secrets.redact_tree(message, tree.nodes)
    shown = bytearray(frame)
    for start, end in spans:
        shown[start:end] = bytes(end - start)
    rows = list(_with_rest(_rows(tree.nodes, ""), len(frame)))
    return Explanation(message, bytes(shown), embedded.presentable(message), rows, tree.error, findings)


def _answer(frame: bytes, request: RequestReceived) -> ResponseReceived:
    message = read_response(frame, request.message.api_key, request.message.version)
    return ResponseReceived(0, 0, len(frame) - 4, message.correlation_id, message, request)


def _rows(nodes: list[Node], prefix: str, *, decompressed: bool = False) -> Iterator[Row]:
    for node in nodes:
        if node.name.isdigit():
            path = f"{prefix}[{node.name}]"
        elif node.name == "body" and not prefix:
            path = ""
        else:
            path = f"{prefix}.{node.name}" if prefix else node.name
        if not node.children:
            if node.end > node.start or node.value is not None:
                yield Row(path, node.start, node.end, node.value, node.meaning)
            continue
        first = node.children[0]
        if first.start > node.start:
            yield Row(path, node.start, first.start, len(node.children), node.meaning, counts=True)
        inside = decompressed or (len(node.children) > 1 and (first.start, first.end) == (node.start, node.end))
        if inside and not decompressed:
            yield Row(path, node.start, node.end, len(node.children), node.meaning or "compressed", counts=True)
        yield from _rows(node.children, path, decompressed=inside)


def _with_rest(rows: Iterator[Row], size: int) -> Iterator[Row]:
    """The rows, and one for the bytes that no field took."""
    end = 0
    for row in rows:
        end = max(end, row.end)
        yield row
    if end < size:
        yield Row("(not decoded)", end, size, None, None)


def is_request(frame: bytes) -> bool:
    """Whether a frame reads like a request."""
    return len(frame) >= 14 and plausible_request(frame, 0)


def prefix_problem(data: bytes) -> str | None:
    """What is wrong with the length prefix of a lone frame, None if nothing is."""
    if len(data) < 4:
        return f"a frame begins with a length prefix of 4 bytes, here are {len(data)}"
    said, follow = int.from_bytes(data[:4], "big", signed=True), len(data) - 4
    if said == follow:
        return None
    return (
        f"the length prefix says {said} bytes, {follow} follow: "
        f"for these bytes it would be {follow.to_bytes(4, 'big').hex(' ')}"
    )


def add_prefix(data: bytes) -> bytes | None:
    """`data` with a length prefix if it is a request that was given without one, else None."""
    framed = len(data).to_bytes(4, "big") + data
    if len(framed) >= 14 and plausible_request(framed, 0):
        message = read_request(framed)
        if message.error is None and not message.trailing:
            return framed
    return None


def candidates(frame: bytes) -> list[tuple[str, list[int]]]:
    """The APIs and versions whose response would read to the last byte of this frame, fewest versions first."""
    found: list[tuple[str, list[int]]] = []
    for api in schemas.apis():
        versions = []
        for version in range(api.min_version, api.max_version + 1):
            message = read_response(frame, api.key, version)
            if message.error is None and not message.trailing and not message.oddities:
                versions.append(version)
        if versions:
            found.append((api.name, versions))
    return found
