"""The payloads of a message below their fields, its record data left for later."""

from __future__ import annotations

from dissectors.embedded.locations import TopicName
from dissectors.embedded.registry import Rows
from dissectors.embedded.tree import Expander
from dissectors.messages.sensitive import SECRET_TOPICS
from dissectors.wire.node import Node


class LateExpander(Expander):
    """Expands payloads at once, and puts down where record data stands.

    `record_data` has its topic and the structs around it, by the `id` of its node, which must live as long;
    `dissectors.records.lazy` reads it. Record data of topics with secrets is not read: its node is hidden, and in
    `guarded`.
    """

    def __init__(self, frame: bytes, topic_name: TopicName) -> None:
        super().__init__(frame, topic_name)
        self.record_data: dict[int, tuple[str | None, Rows]] = {}
        self.guarded: set[int] = set()

    def _record_data(self, node: Node, topic: str | None, rows: Rows) -> None:
        if topic in SECRET_TOPICS:
            self.guarded.add(id(node))
            self._hide(node, pinned=False)
        else:
            self.record_data[id(node)] = topic, rows
