"""Record data and embedded payloads: decoded in place in a body, or as nodes below their fields in a tree.

In a body, record data is replaced by the result of `dissectors.records.decode`, and a payload by a dict::

    {"type": "ConsumerProtocolSubscription", "version": 3, "data": {"topics": ["orders"], ...}}

``type`` is Kafka's name of the message in ``data``. The keys between them precede the message on the wire: ``version``;
in keys of coordinator topics ``record_type``; in metadata records also ``frame_version`` and ``api_key``. ``rest`` has
the bytes after it. Bytes that do not decode as the payload stay bytes, and ``<field>_error`` gives the reason.
Secrets become text, ``(redacted, 32 bytes)``, and so does record data that may contain secrets in unknown places.
"""

from __future__ import annotations

from dissectors.embedded import assignors, control, coordinators, group, metadata  # noqa: F401  # registers the readers
from dissectors.embedded.locations import TopicName, embedded_locations, no_topic_name, record_topics
from dissectors.embedded.registry import Row
from dissectors.embedded.tree import Expander
from dissectors.embedded.values import expand_struct
from dissectors.messages import secret_fields
from dissectors.messages.message import Message, walk_message
from dissectors.records.allowance import Allowance
from dissectors.wire.node import Node

__all__ = ["expand", "expand_nodes", "expanded_body", "holds_secret_topic", "presentable_body", "secret_record_spans"]


def expand(message: Message, topic_name: TopicName = no_topic_name, allowance: Allowance | None = None) -> Row:
    """Return the body with record data and payloads decoded in place; the same object if it cannot contain any.

    Args:
        message: The decoded message; it is not changed. If it is partial, so is the result.
        topic_name: Returns the name of a topic id (in Kafka's text form), None if unknown. Without names, the records
            of coordinator topics stay bytes.
        allowance: The work that may be done for records, as in `dissectors.records.decode`.

    Returns:
        The body as this package's docstring describes it. Never raises. Secrets in records are withheld; for secrets in
        fields of the message, see `presentable_body`.
    """
    return _expand(message, message.body, topic_name, allowance)


def presentable_body(
    message: Message, topic_name: TopicName = no_topic_name, allowance: Allowance | None = None
) -> Row:
    """Return the body for display: without secrets, and with record data and payloads decoded as by `expand`."""
    return _expand(message, secret_fields.redacted(message), topic_name, allowance)


def _expand(message: Message, body: Row, topic_name: TopicName, allowance: Allowance | None) -> Row:
    if message.layout is None:
        return body
    return expand_struct(body, embedded_locations(message.layout), (), topic_name, allowance)


def expand_nodes(message: Message, body: Node, topic_name: TopicName = no_topic_name) -> list[tuple[int, int]]:
    """Add nodes for record data and payloads to the node ``body`` of `walk_message`, below their fields.

    The node of a payload keeps its value and gets the payload's type as its meaning; if decoding fails, it gets the
    reason. Nodes from decompressed bytes have the span of the compressed bytes. Secrets in records become text.

    Returns:
        The spans of those secrets in the frame; for compressed ones, of the compressed bytes. Never raises.
    """
    expander = Expander(message.frame, topic_name)
    if message.layout is not None:
        expander.expand_struct(body.children, message.body, embedded_locations(message.layout))
    return expander.secrets


def expanded_body(message: Message) -> Node:
    """Return the node of the body, with record data and payloads below their fields as added by `expand_nodes`.

    It is empty if the body was not decoded.
    """
    body = _body_node(message)
    expand_nodes(message, body)
    return body


def _body_node(message: Message) -> Node:
    nodes = walk_message(message).nodes
    return next((node for node in nodes if node.name == "body"), Node("body", message.body_start, message.body_start))


def holds_secret_topic(message: Message) -> bool:
    """Whether the message has record data from a topic whose records contain secrets."""
    if message.layout is None or not (locations := embedded_locations(message.layout)):
        return False
    return not secret_fields.SECRET_TOPICS.isdisjoint(record_topics(message.body, locations))


def secret_record_spans(message: Message) -> list[tuple[int, int]]:
    """Return the spans of secrets in record data, and of data that may contain secrets in unknown places.

    The latter are compressed records, records that do not decode, and the rest of a message that does not decode.
    """
    if not holds_secret_topic(message):
        return []
    body = _body_node(message)
    spans = expand_nodes(message, body)
    if message.error or message.trailing:
        spans.append((message.end, len(message.frame)))
    if body.end < message.end:  # the tree was cut off
        spans.append((body.end, len(message.frame)))
    return spans
