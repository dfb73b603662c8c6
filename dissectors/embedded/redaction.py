"""Removes secrets from trees and raw bytes; `dissectors.messages.secret_fields` defines which fields are secret."""

from __future__ import annotations

from bisect import bisect_left

from dissectors import embedded
from dissectors.messages.message import Message, walk_message
from dissectors.messages.secret_fields import (
    Condition,
    Row,
    condition_within,
    has_unreadable_secret,
    may_hold_secrets,
    redacted,
    redaction_text,
    rules,
    value_size,
)
from dissectors.wire.node import Node


class SpanSet:
    """A set of half-open spans that finds overlaps with another span by binary search."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            elif start < end:
                self._starts.append(start)
                self._ends.append(end)

    def overlap(self, start: int, end: int) -> bool:
        """Whether any byte of ``start..end`` is in one of the spans."""
        index = bisect_left(self._starts, end)
        return index > 0 and start < self._ends[index - 1]


__all__ = ["has_unreadable_secret", "may_hold_secrets", "redact_tree", "redacted", "redacted_frame"]


def redact_tree(message: Message, nodes: list[Node]) -> list[tuple[int, int]]:
    """Replace the secrets in a tree from `walk_message`, expanded or not; return their spans in the frame."""
    body = next((node for node in nodes if node.name == "body"), None)
    if has_unreadable_secret(message):
        if body is not None:
            body.children = [Node("(redacted)", body.start, len(message.frame))]
        return [(min(message.body_start, len(message.frame)), len(message.frame))]
    if body is None:
        return []
    spans: list[tuple[int, int]] = []
    for path, names, condition in rules(message):
        _redact_nodes(body, message.body, path, names, condition, spans)
    if secret_spans := embedded.secret_record_spans(message):
        _withhold(nodes, SpanSet(secret_spans))
    if body.end < message.end and may_hold_secrets(message):  # a tree that was cut off
        spans.append((body.end, len(message.frame)))
    return spans + secret_spans


def _redact_nodes(
    node: Node,
    row: Row,
    path: tuple[str, ...],
    names: tuple[str, ...],
    condition: Condition,
    spans: list[tuple[int, int]],
) -> None:
    condition = condition_within(row, condition)
    for child in node.children:
        if path and child.name == path[0]:
            for element, values in zip(child.children, row.get(path[0]) or (), strict=False):
                _redact_nodes(element, values, path[1:], names, condition, spans)
        elif not path and child.name in names and child.value is not None and condition(row):
            spans.append((child.end - value_size(child.value), child.end))
            child.value = redaction_text(child.value)


def _withhold(nodes: list[Node], spans: SpanSet) -> None:
    """Replace every value that overlaps these spans."""
    for node in nodes:
        if spans.overlap(node.start, node.end):
            if isinstance(node.value, bytes):
                node.value = redaction_text(node.value)
            _withhold(node.children, spans)


def redacted_frame(message: Message) -> bytes:
    """Return the frame with the bytes of its secrets set to zero, so that lengths do not change."""
    if not may_hold_secrets(message) and not embedded.holds_secret_topic(message):
        return message.frame
    frame = bytearray(message.frame)
    for start, end in redact_tree(message, walk_message(message).nodes):
        frame[start:end] = bytes(end - start)
    return bytes(frame)
