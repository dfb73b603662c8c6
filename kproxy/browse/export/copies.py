"""One exchange as text for other tools: hex, JSON, a command line, Markdown for an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kproxy.browse.fields.frames import FrameLine, body_of, frame_of
from kproxy.browse.rows.exchange import Exchange
from kproxy.escaping import markdown_code as _code
from kproxy.escaping import shell_word, terminal_lines
from kproxy.inspection.event_lines import excerpt
from kproxy.outputs.findings import full_rows
from kproxy.outputs.text import topics_text
from kproxy.trace.encoding import as_mapping, encode_json
from kproxy.trace.formatting import duration
from kproxy.trace.lines import RequestLine, ResponseLine
from kproxy.verdict.ranking import best_first

#: Limits of the Markdown: bytes of a frame, and characters of a body.
_MAX_BYTES = 1024
_MAX_BODY = 8000


def as_hex(line: FrameLine) -> str | None:
    """Return the frame as hex, 16 bytes per line; None if the trace has no bytes for it."""
    frame = frame_of(line)
    return None if frame is None else _hex(frame)


def _hex(data: bytes) -> str:
    return "\n".join(data[offset : offset + 16].hex(" ") for offset in range(0, len(data), 16))


def as_command(exchange: Exchange, *, request: bool) -> str | None:
    """Return the `kproxy explain` command for one side; None if the trace has no bytes for that side."""
    request_bytes = frame_of(exchange.request) if exchange.request is not None else None
    if request:
        return None if request_bytes is None else f"kproxy explain {request_bytes.hex()}"
    line = exchange.response
    if line is None or (response_bytes := frame_of(line)) is None:
        return None
    if request_bytes is not None:
        return f"kproxy explain --request {request_bytes.hex()} {response_bytes.hex()}"
    if not line.api:
        return None
    return f"kproxy explain --api {shell_word(line.api)} --version {line.api_version} {response_bytes.hex()}"


def as_json(exchange: Exchange) -> str:
    """Return the exchange's lines with their bodies as indented JSON; a frame's bytes are omitted if it has a body."""
    lines = [line for line in (exchange.request, exchange.response, exchange.event) if line is not None]
    mapping: dict[str, Any] = {as_mapping(line)["kind"]: _as_mapping(line) for line in lines}
    return msgspec.json.format(encode_json(mapping), indent=2).decode()


def _as_mapping(line: Any) -> dict[str, Any]:
    mapping = as_mapping(line)
    if isinstance(line, RequestLine | ResponseLine) and (body := body_of(line)) is not None:
        mapping["body"] = body
        mapping.pop("frame", None)
    return mapping


def as_markdown(exchange: Exchange) -> str:
    """Return Markdown for an issue: request, response, findings, bytes, and the command that explains the frame."""
    return terminal_lines("\n".join(_markdown(exchange))) + "\n"


def _markdown(exchange: Exchange) -> Iterator[str]:
    line, frame = exchange.line, exchange.frame
    if frame is None:
        yield f"**{as_mapping(line)['kind']}** at {_plain_or_code(line.ts)}, connection {_code(line.connection_id)}"
        yield from _block(as_json(exchange), "json")
        return
    yield f"### {_plain_or_code(frame.api or '?')} v{frame.api_version}, correlation id {frame.correlation_id}"
    yield ""
    facts = [
        ("time", line.ts),
        ("connection", f"{frame.client} -> {frame.server}"),
        ("client id", frame.client_id or ""),
        ("about", topics_text(frame.topics)),
        ("group", frame.group_id or ""),
        ("latency", duration(exchange.response.latency_us) if exchange.response else "no response"),
        ("errors", ", ".join(error.name for error in exchange.response.errors) if exchange.response else ""),
    ]
    for name, text in facts:
        if text:
            yield f"- {name}: {_code(text)}"
    for side in (exchange.request, exchange.response):
        if side is None:
            continue
        kind, frame_bytes = "request" if isinstance(side, RequestLine) else "response", frame_of(side)
        for finding in best_first(side.findings):
            if finding.excerpt is None and finding.span is not None and frame_bytes is not None:
                finding.excerpt = excerpt(frame_bytes, *finding.span)
            yield from _block("\n".join("".join(text for text, _ in row) for row in full_rows(finding)), "text")
        if (body := body_of(side)) is not None:
            text = msgspec.json.format(encode_json(body), indent=2).decode()
            yield from _collapsed_block(
                f"{kind}, decoded", text[:_MAX_BODY] + ("\n..." if len(text) > _MAX_BODY else ""), "json"
            )
        if frame_bytes is not None:
            more_text = f"\n... {len(frame_bytes) - _MAX_BYTES} more bytes" if len(frame_bytes) > _MAX_BYTES else ""
            hex_text = _hex(frame_bytes[:_MAX_BYTES]) + more_text
            yield from _collapsed_block(f"{kind}, {len(frame_bytes)} bytes", hex_text, "text")


def _plain_or_code(text: str) -> str:
    """Return an API name or a time unchanged, and anything else, which only a forged trace contains, as code."""
    return text if re.fullmatch(r"[\w :.+?-]*", text, re.ASCII) else _code(text)


def _collapsed_block(title: str, text: str, language: str) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield from _block(text, language)
    yield "</details>"


def _block(text: str, language: str) -> Iterator[str]:
    """Yield the parts of a fenced code block; its fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield ""
    yield f"{fence}{language}"
    yield text
    yield fence
    yield ""
