"""Record data and the payloads inside bytes: decoded in place in a body, or below their fields in a tree.

A body then holds, where record data stood, what `dissectors.records.decode` gives, and where a payload stood::

    {"type": "ConsumerProtocolSubscription", "version": 3, "data": {"topics": ["orders"], ...}}

``type`` is Kafka's name of the message in ``data``. Between them is what stands before it on the wire: ``version``, in
keys of coordinators' topics ``record_type``, in metadata records ``frame_version`` and ``api_key`` too. ``rest`` holds
bytes after it. Bytes that should be a payload and are none stay bytes, and ``<field>_error`` beside them says why.
Secrets are text, ``(redacted, 32 bytes)``, and so is record data of which nobody can say where its secrets are.
"""

from __future__ import annotations

from dissectors.embedded import assignors, control, coordinators, group, metadata  # noqa: F401  # they register
from dissectors.embedded.locations import TopicName, no_name, spots, topics
from dissectors.embedded.registry import Row
from dissectors.embedded.tree import Expander
from dissectors.embedded.values import expanded
from dissectors.messages import sensitive
from dissectors.messages.message import Message, walk_message
from dissectors.wire.node import Node

__all__ = ["expand", "expand_nodes", "holds_secret_topic", "presentable", "secret_record_spans"]


def expand(message: Message, topic_name: TopicName = no_name) -> Row:
    """The body with record data and payloads decoded in place; the same object where there can be none.

    Args:
        message: As read; it is not changed. What it could not be read to is not there.
        topic_name: Gives the name of a topic id as Kafka prints it, None if it is not known. Without names the
            records of the coordinators' topics stay bytes.

    Returns:
        The shape that this package's documentation gives. Never raises. Secrets in records are withheld; those in
        fields of the message are not, see `presentable`.
    """
    return _expand(message, message.body, topic_name)


def presentable(message: Message, topic_name: TopicName = no_name) -> Row:
    """The body as people may see it: without secrets, and with record data and payloads decoded as by `expand`."""
    return _expand(message, sensitive.redacted(message), topic_name)


def _expand(message: Message, body: Row, topic_name: TopicName) -> Row:
    return expanded(body, spots(message.layout), (), topic_name) if message.layout else body


def expand_nodes(message: Message, body: Node, topic_name: TopicName = no_name) -> list[tuple[int, int]]:
    """Add to the node ``body`` of `walk_message` the nodes of its record data and payloads, below their fields.

    A payload's node keeps its value and gets the payload's type as its meaning; one that cannot be decoded gets the
    reason. What came out of compressed bytes has their span. Secrets in records, and values around them, become text.

    Returns:
        The spans of those secrets in the frame; of compressed ones, of the compressed bytes. Never raises.
    """
    expander = Expander(message.frame, topic_name)
    if message.layout is not None:
        expander.struct(body.children, message.body, spots(message.layout))
    return expander.secrets


def holds_secret_topic(message: Message) -> bool:
    """Whether there is record data of a topic whose records hold secrets."""
    if message.layout is None or not (inside := spots(message.layout)):
        return False
    return not sensitive.SECRET_TOPICS.isdisjoint(topics(message.body, inside))


def secret_record_spans(message: Message) -> list[tuple[int, int]]:
    """The spans in the frame of secrets in record data: each secret, or all that it cannot be told apart from.

    The latter are compressed records, records that do not decode, and what follows where the message could not be
    read any more.
    """
    if not holds_secret_topic(message):
        return []
    body = next(node for node in walk_message(message).nodes if node.name == "body")
    spans = expand_nodes(message, body)
    if message.error or message.trailing:
        spans.append((message.end, len(message.frame)))
    return spans
