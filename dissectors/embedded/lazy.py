"""Expands the payloads of a message and defers its record data."""

from __future__ import annotations

from dissectors.embedded.locations import TopicName
from dissectors.embedded.registry import Rows
from dissectors.embedded.tree import Expander
from dissectors.messages.secret_fields import SECRET_TOPICS
from dissectors.wire.node import Node


class LazyExpander(Expander):
    """Expands payloads immediately and remembers where record data is.

    `record_data` maps the `id` of a node, which the caller must keep alive, to the topic and the enclosing structs;
    `dissectors.records.lazy` reads it. Record data of topics with secrets is not read: its node is redacted and listed
    in `guarded`.
    """

    def __init__(self, frame: bytes, topic_name: TopicName) -> None:
        super().__init__(frame, topic_name)
        self.record_data: dict[int, tuple[str | None, Rows]] = {}
        self.guarded: set[int] = set()

    def _expand_record_data(self, node: Node, topic: str | None, rows: Rows) -> None:
        if topic in SECRET_TOPICS:
            self.guarded.add(id(node))
            self._hide(node, pinned=False)
        else:
            self.record_data[id(node)] = topic, rows
