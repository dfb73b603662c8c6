"""Explain values in words: codes, bit sets, sentinels, times, null and empty arrays."""

from __future__ import annotations

from typing import Any

from dissectors.messages.message import Message
from dissectors.messages.value_annotations.tables import ABSENT, FIELDS, IN_MESSAGE, error
from dissectors.wire.layout import NULL_UUID
from dissectors.wire.node import Node

__all__ = ["annotate", "meaning"]


def meaning(message_name: str, path: tuple[str, ...], value: Any, version: int = -1) -> str | None:
    """Return the meaning of a value in words; None if it needs no explanation.

    Args:
        message_name: The message or payload with the field: ``FetchRequest``, ``RequestHeader``, ``OffsetCommitValue``.
        path: The path to the field, with the indexes of array elements: ``("topics", "0", "partitions")``.
        value: The decoded value; None for null, an empty list for an empty array.
        version: The version of the message; -1 if unknown.
    """
    name = next((part for part in reversed(path) if not part.isdigit()), "")
    if value is None or value == []:
        if (message_name, version) == ("MetadataRequest", 0):
            value = None  # version 0 has no null: an empty array requests all topics
        null, empty = ABSENT.get((message_name, name), (None, None))
        return null if value is None else empty
    if value == NULL_UUID:
        return "none"
    annotator = IN_MESSAGE.get((message_name, name)) or FIELDS.get(name)
    if annotator is None and name.endswith("error_code"):
        annotator = error
    return annotator(value) if annotator and isinstance(value, int | str) else None


def annotate(nodes: list[Node], message: Message) -> None:
    """Set the meaning of nodes without one, in a tree from `walk_message` that may have been expanded."""
    kind = "Request" if message.is_request else "Response"
    owners = {"header": f"{kind}Header", "body": f"{message.api}{kind}"}
    for node in nodes:
        if node.name in owners:
            _annotate(node.children, owners[node.name], (), message.version)


def _annotate(nodes: list[Node], owner: str, path: tuple[str, ...], version: int) -> None:
    for node in nodes:
        if node.name == "_tags":
            for tag in node.children:
                _annotate(tag.children, owner, path, version)
        elif not node.children:
            node.meaning = node.meaning or meaning(owner, (*path, node.name), node.value, version)
        elif node.meaning and any(child.name == "data" for child in node.children):
            _annotate(node.children, node.meaning, (), version)  # the meaning of a payload's node is its type
        else:
            _annotate(node.children, owner, (*path, node.name), version)
