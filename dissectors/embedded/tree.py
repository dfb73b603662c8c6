"""Adds record data and payloads to the tree of a message, each with its span in the frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from dissectors import records
from dissectors.embedded.locations import EmbeddedLocation, TopicName, embedded_locations, topic_of
from dissectors.embedded.registry import CONTROL, Reader, Row, Rows, reader_of
from dissectors.embedded.values import is_control_record
from dissectors.messages.secret_fields import SECRET_TOPICS, payload_secrets, redaction_text, value_size
from dissectors.records.allowance import WALKED_RECORD_STEPS, Allowance
from dissectors.records.control import read_control_key
from dissectors.records.formats import CONTROL as CONTROL_BIT
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk

#: The maximum number of records in one frame that get nodes, seven or more each; half as many in formats 0 and 1.
MAX_RECORDS: Final = 2_500


class Expander:
    """Adds nodes for the embedded data of one frame. `secrets` collects the spans of removed values.

    With `pinned`, all nodes of a compressed record have the span of the compressed bytes. `layouts` maps the `id` of a
    payload's node, which the caller must keep alive, to the node and the payload's layout.
    """

    def __init__(self, frame: bytes, topic_name: TopicName) -> None:
        self.frame = frame
        self.topic_name = topic_name
        self.secrets: list[tuple[int, int]] = []
        self.layouts: dict[int, tuple[Node, Layout]] = {}
        self._allowance = Allowance(MAX_RECORDS * WALKED_RECORD_STEPS, record_cost=WALKED_RECORD_STEPS)

    def expand_struct(
        self,
        nodes: list[Node],
        row: Row,
        locations: tuple[EmbeddedLocation, ...],
        rows: Rows = (),
        *,
        pinned: bool = False,
    ) -> None:
        """Expand the fields of a struct, whose nodes and values are given."""
        rows = (*rows, row)
        for location in locations:
            value = row.get(location.name)
            if value is None:
                continue
            # A duplicate field has two nodes, and the row has the value of the last.
            for node in _children(nodes, location.name):
                if isinstance(value, list):
                    for element, values in zip(node.children, value, strict=False):
                        self.expand_struct(element.children, values, location.children, rows, pinned=pinned)
                elif location.children:
                    self.expand_struct(node.children, value, location.children, rows, pinned=pinned)
                elif node.value is None:
                    continue
                elif location.reader:
                    self._expand_payload(node, location.reader, rows, pinned=pinned, guarded=False)
                else:
                    self._expand_record_data(node, topic_of(rows, self.topic_name), rows)

    def _expand_payload(self, node: Node, reader: Reader, rows: Rows, *, pinned: bool, guarded: bool) -> None:
        """Expand a payload. If the bytes do not decode, the node keeps its value and gets the reason as its meaning."""
        data = node.value
        try:
            layout = reader(data, rows)
        except DecodeError as error:
            node.meaning = error.message
            return
        if layout is None:
            return
        start = 0 if pinned else node.end - len(data)
        walked = walk(layout, data) if pinned else walk(layout, self.frame, start, node.end)
        if walked.error is not None:
            node.meaning = f"no {layout.name}: {walked.error}"
            return
        node.meaning = layout.name
        self.layouts[id(node)] = node, layout
        node.children = walked.nodes
        if trailing := data[walked.end - start :]:
            node.children.append(Node("rest", walked.end, node.end, trailing))
        if pinned:
            _set_spans(node.children, node.start, node.end)
        self.expand_struct(node.children, walked.values, embedded_locations(layout), rows, pinned=pinned)
        if not guarded:
            return
        node.value = redaction_text(data)
        secret_names = payload_secrets(layout.name, walked.values["data"])
        for field in (field for part in node.children if part.name == "data" for field in part.children):
            if field.name in secret_names:
                self._hide(field, pinned=pinned)
        if trailing:
            self._hide(node.children[-1], pinned=pinned)

    def _expand_record_data(self, node: Node, topic: str | None, rows: Rows) -> None:
        data = node.value
        guarded = topic in SECRET_TOPICS
        # A few compressed bytes can become very many records.
        if any("records_left_out" in batch for batch in records.decode(data, allowance=self._allowance)):
            node.meaning = "too many records to show"
            if guarded:
                self._hide(node, pinned=False)
            return
        walked = records.walk(self.frame, node.end - len(data), node.end)
        if guarded and not _are_intact(walked.nodes):
            self._hide(node, pinned=False)
            return
        node.children = walked.nodes
        node.meaning = str(walked.error) if walked.error else node.meaning
        for batch in walked.nodes:
            self._expand_batch(batch, topic, rows, guarded=guarded)
        if guarded:
            node.value = redaction_text(data)

    def _expand_batch(self, batch: Node, topic: str | None, rows: Rows, *, guarded: bool) -> None:
        if expand := self.record_expander(batch, topic, rows, guarded=guarded):
            for record in _record_nodes(batch):
                expand(record)
        if guarded:
            self._hide_undecoded(batch.children, pinned=_is_compressed(batch))

    def record_expander(
        self, batch: Node, topic: str | None, rows: Rows, *, guarded: bool = False
    ) -> Callable[[Node], None] | None:
        """Return a function that expands a record of this batch; None if its records cannot contain payloads."""
        is_control = _value(batch, "magic") == 2 and (_value(batch, "attributes") or 0) & CONTROL_BIT != 0
        pinned = _is_compressed(batch)
        owner = CONTROL if is_control else topic
        readers = {name: reader for name in ("key", "value") if owner and (reader := reader_of(owner, name))}

        def expand(record: Node) -> None:
            row: Row = {"key": _value(record, "key"), "value": _value(record, "value")}
            if is_control:
                row["control"] = read_control_key(row["key"])
                if not is_control_record(row, readers, rows):
                    return
            for name, reader in readers.items():
                node = _child(record.children, name)
                if node is not None and node.value is not None:
                    self._expand_payload(node, reader, (*rows, row), pinned=pinned, guarded=guarded)

        return expand if readers else None

    def _hide_undecoded(self, nodes: list[Node], *, pinned: bool) -> None:
        """Hide all values that are still bytes."""
        for node in nodes:
            if isinstance(node.value, bytes):
                self._hide(node, pinned=pinned)
            elif node.value is None:
                self._hide_undecoded(node.children, pinned=pinned)

    def _hide(self, node: Node, *, pinned: bool) -> None:
        """Replace the value of a node by a redaction text, and record the span of the value."""
        self.secrets.append((node.start if pinned else node.end - value_size(node.value), node.end))
        node.value = redaction_text(node.value)


def _children(nodes: list[Node], name: str) -> Iterator[Node]:
    """Return the fields with this name, including tagged ones."""
    tagged = (field for node in nodes if node.name == "_tags" for tag in node.children for field in tag.children)
    return (node for node in (*nodes, *tagged) if node.name == name)


def _child(nodes: list[Node], name: str) -> Node | None:
    return next(_children(nodes, name), None)


def _value(node: Node, name: str) -> Any:
    child = _child(node.children, name)
    return child.value if child else None


def _is_compressed(batch: Node) -> bool:
    return (_value(batch, "attributes") or 0) & 7 != 0


def _are_intact(batches: list[Node]) -> bool:
    """Whether all batches are intact, except a truncated last one; see `dissectors.embedded.values`."""
    complete_batches = batches[:-1] if len(batches) > 1 and _child(batches[-1].children, "truncated") else batches
    return all((crc := _child(batch.children, "crc")) and crc.meaning == "valid" for batch in complete_batches)


def _record_nodes(batch: Node) -> Iterator[Node]:
    """Yield the nodes with a key and a value: the records below ``records``, or the messages of formats 0 and 1."""
    records_node = _child(batch.children, "records") or _child(batch.children, "value")
    for node in (
        records_node.children
        if records_node and (records_node.children or records_node.name == "records")
        else (batch,)
    ):
        if _child(node.children, "value"):
            yield node


def _set_spans(nodes: list[Node], start: int, end: int) -> None:
    for node in nodes:
        node.start, node.end = start, end
        _set_spans(node.children, start, end)
