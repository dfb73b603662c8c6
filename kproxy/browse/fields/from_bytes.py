"""The fields of a frame whose bytes are known, each with its span."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from dissectors.embedded import redaction
from dissectors.embedded.lazy import LazyExpander
from dissectors.embedded.locations import TopicName, embedded_locations
from dissectors.messages import value_annotations
from dissectors.messages.message import Message, walk_message
from dissectors.messages.secret_fields import redaction_text
from dissectors.records import lazy
from dissectors.wire.layout import Field as WireField
from dissectors.wire.layout import Layout, layout_of_element
from dissectors.wire.node import Node
from kproxy.browse.fields import kinds
from kproxy.browse.fields.decoded_values import DecodedAt, decoded_field
from kproxy.browse.fields.field import FieldView

#: Returns the fields of record data whose bytes are withheld, by path, from the decoded body in the trace.
WithheldFields = Callable[[str], Iterator[FieldView]]


class WireFields:
    """Builds the fields of one message.

    Args:
        message: The decoded message, perhaps decoded with a modified layout.
        topic_name: Returns the name of a topic id.
        withheld_fields: See `WithheldFields`.
        decoded_at: See `DecodedAt`.

    Attributes:
        fields: ``size``, ``header`` and ``body``, and any remaining bytes as ``(not decoded)``.
        secrets: Spans of the frame that must not be shown.
        error: Where and why decoding stopped, None if it reached the end.
    """

    def __init__(
        self, message: Message, topic_name: TopicName, withheld_fields: WithheldFields, decoded_at: DecodedAt
    ) -> None:
        tree = walk_message(message)
        self._frame = message.frame
        self._tree = tree  # keeps the nodes alive: they are looked up by id()
        self._withheld_fields = withheld_fields
        self._decoded_at = decoded_at
        self._version = message.version
        self._owner = owner = f"{message.api}{'Request' if message.is_request else 'Response'}"
        self._expander = LazyExpander(message.frame, topic_name)
        layouts = {
            "header": (message.header_layout, f"{'Request' if message.is_request else 'Response'}Header"),
            "body": (message.layout, owner),
        }
        body = next((node for node in tree.nodes if node.name == "body"), None)
        if body is not None and message.layout is not None:
            self._expander.expand_struct(body.children, message.body, embedded_locations(message.layout))
        self.secrets = self._expander.secrets
        if redaction.may_hold_secrets(message):
            self.secrets += redaction.redact_tree(message, tree.nodes)
        elif self._expander.guarded and (message.error or message.trailing):
            self.secrets.append((message.end, len(message.frame)))
        self.error = message.opaque or (str(tree.error) if tree.error else None)
        self.fields = [self._top_level_field(node, *layouts.get(node.name, (None, ""))) for node in tree.nodes]
        end = max(node.end for node in tree.nodes)
        if end < len(message.frame):
            span = end, len(message.frame)
            rest = message.frame[slice(*span)]
            is_secret = any(start <= end < stop for start, stop in self.secrets)
            self.fields.append(FieldView("(not decoded)", "", span, redaction_text(rest) if is_secret else rest))

    def _top_level_field(self, node: Node, layout: Layout | None, owner: str) -> FieldView:
        """Return the field of the size, the header or the body."""
        if not owner:
            return FieldView(node.name, node.name, (node.start, node.end), node.value, kind="int32")
        path = "" if node.name == "body" else node.name
        produce = partial(self._struct_fields, node.children, layout, path, owner)
        return FieldView(node.name, node.name, (node.start, node.end), kind=owner, produce=produce)

    def _struct_fields(self, nodes: list[Node], layout: Layout | None, path: str, owner: str) -> Iterator[FieldView]:
        fields_by_name = {field.name: field for field in (*layout.fields, *layout.tagged)} if layout else {}
        for node in nodes:
            field_path = f"{path}.{node.name}" if path else node.name
            if node.name == "_tags":
                produce = partial(self._tags, node.children, fields_by_name, field_path, owner)
                span = node.start, node.end
                yield FieldView(
                    node.name, field_path, span, kind="tag buffer", count=len(node.children), produce=produce
                )
            elif node.name == "(redacted)":
                redacted_text = redaction_text(self._frame[node.start : node.end])
                yield FieldView(node.name, path, (node.start, node.end), redacted_text)
            else:
                yield self._field(node, fields_by_name.get(node.name), field_path, owner)

    def _tags(
        self, nodes: list[Node], fields_by_name: Mapping[str, WireField], path: str, owner: str
    ) -> Iterator[FieldView]:
        """Yield the tagged fields; their spans include the tag and size."""
        for node in nodes:
            if node.children:
                field = self._field(node.children[0], fields_by_name.get(node.name), f"{path}.{node.name}", owner)
                field.start, field.end = node.start, node.end
                yield field
            else:
                yield FieldView(node.name, f"{path}.{node.name}", (node.start, node.end), node.value, kind="bytes")

    def _field(self, node: Node, wire: WireField | None, path: str, owner: str) -> FieldView:
        span = node.start, node.end
        kind = kinds.kind_of(wire)
        if id(node) in self._expander.record_data:
            return FieldView(node.name, path, span, node.value, kind=kind, produce=partial(self._batches, node, path))
        if id(node) in self._expander.guarded:
            return FieldView(node.name, path, span, node.value, kind=kind, produce=partial(self._withheld_fields, path))
        if (payload := self._expander.layouts.get(id(node))) is not None:
            produce = partial(self._struct_fields, node.children, payload[1], path, payload[1].name)
            return FieldView(node.name, path, span, node.value, kind=kind, meaning=node.meaning, produce=produce)
        if wire is not None and wire.array and (node.children or node.value == []):
            meaning = self._meaning(owner, node) if not node.children else None
            produce = partial(self._elements, node.children, wire, path, owner)
            return FieldView(
                node.name, path, span, kind=kind, meaning=meaning, count=len(node.children), produce=produce
            )
        if node.children:
            produce = partial(self._struct_fields, node.children, wire.struct if wire else None, path, owner)
            return FieldView(node.name, path, span, kind=kind, produce=produce)
        meaning = self._meaning(owner, node)
        return FieldView(node.name, path, span, node.value, kind=kind, meaning=meaning)

    def _meaning(self, owner: str, node: Node) -> str | None:
        return node.meaning or value_annotations.meaning(owner, (node.name,), node.value, self._version)

    def _elements(self, nodes: list[Node], wire: WireField, path: str, owner: str) -> Iterator[FieldView]:
        kind = kinds.kind_of_element(wire)
        for index, node in enumerate(nodes):
            name = f"[{index}]"
            element_path, span = path + name, (node.start, node.end)
            if wire.struct is not None:
                produce = partial(
                    self._struct_fields, node.children, layout_of_element(wire, index), element_path, owner
                )
                yield FieldView(name, element_path, span, kind=kind, produce=produce)
            else:
                meaning = value_annotations.meaning(owner, (wire.name,), node.value)
                yield FieldView(name, element_path, span, node.value, kind=kind, meaning=meaning)

    def _batches(self, node: Node, path: str) -> Iterator[FieldView]:
        """Yield the batches of record data."""
        topic, rows = self._expander.record_data[id(node)]
        for batch in lazy.batches(self._frame, node.end - len(node.value), node.end):
            node = batch.node
            batch_path = f"{path}[{node.name}]"
            is_message = batch.records is None and bool(node.children) and node.children[0].name == "offset"
            kind, make_fields = (
                ("message", self._message_fields) if is_message else ("record batch", self._batch_fields)
            )
            produce = partial(make_fields, batch, batch_path, self._expander.record_expander(node, topic, rows))
            description = node.meaning or _describe_batch(node)
            yield FieldView(
                f"[{node.name}]", batch_path, (node.start, node.end), kind=kind, meaning=description, produce=produce
            )

    def _batch_fields(
        self, batch: lazy.LazyBatch, path: str, expand: Callable[[Node], None] | None
    ) -> Iterator[FieldView]:
        for node in batch.node.children:
            if batch.records is not None and node.name == "records":
                count = next(child.value for child in batch.node.children if child.name == "records_count")
                produce = partial(self._records, batch.records, f"{path}.records", expand)
                yield FieldView(node.name, f"{path}.records", (node.start, node.end), kind=kinds.BATCH["records"],
                            meaning=node.meaning, count=max(count, 0), produce=produce)  # fmt: skip
            else:
                yield self._record_data_field(node, path, kinds.BATCH)

    def _records(
        self, records: Iterator[Node], path: str, expand: Callable[[Node], None] | None
    ) -> Iterator[FieldView]:
        for node in records:
            if node.name == "unread":
                yield self._record_data_field(node, path, {})
                continue
            if expand:
                expand(node)
            offset = next((child.meaning for child in node.children if child.name == "offset_delta"), None)
            produce = partial(self._record_fields, node, f"{path}[{node.name}]")
            yield FieldView(f"[{node.name}]", f"{path}[{node.name}]", (node.start, node.end), kind="record",
                        meaning=offset, produce=produce)  # fmt: skip

    def _record_fields(self, record: Node, path: str) -> Iterator[FieldView]:
        for node in record.children:
            if node.name != "headers":
                yield self._record_data_field(node, path, kinds.RECORD)
                continue
            field_path = f"{path}.headers"
            span, kind, count = (node.start, node.end), kinds.RECORD[node.name], len(node.children)
            produce = partial(self._record_data_fields, node.children, field_path, kinds.HEADER)
            yield FieldView(node.name, field_path, span, kind=kind, count=count, produce=produce)

    def _message_fields(
        self, batch: lazy.LazyBatch, path: str, expand: Callable[[Node], None] | None
    ) -> Iterator[FieldView]:
        """Yield the fields of a message of format 0 or 1, and the messages in a compressed one."""
        inner_messages = next((node.children for node in batch.node.children if node.name == "value"), [])
        for node in inner_messages or [batch.node]:
            if expand:
                expand(node)
        yield from self._record_data_fields(batch.node.children, path, kinds.MESSAGE)

    def _record_data_fields(
        self, nodes: list[Node], path: str, kinds_by_name: Mapping[str, str]
    ) -> Iterator[FieldView]:
        for node in nodes:
            yield self._record_data_field(node, path, kinds_by_name)

    def _record_data_field(self, node: Node, path: str, kinds_by_name: Mapping[str, str]) -> FieldView:
        """Return a field of record data."""
        name, field_path = (
            (f"[{node.name}]", f"{path}[{node.name}]") if node.name.isdigit() else (node.name, f"{path}.{node.name}")
        )
        kind = kinds_by_name.get(node.name, "")
        may_be_decoded = node.name in ("key", "value") and not node.children
        if may_be_decoded and (decoded := self._decoded_at(field_path)) is not None:
            data = node.value if isinstance(node.value, bytes) else None
            return decoded_field(name, field_path, decoded, span=(node.start, node.end), data=data, kind=kind)
        produce = count = None
        if (payload := self._expander.layouts.get(id(node))) is not None:
            produce = partial(self._struct_fields, node.children, payload[1], field_path, payload[1].name)
        elif node.children:
            produce = partial(self._record_data_fields, node.children, field_path, kinds_by_name)
            count = len(node.children) if node.children[0].name.isdigit() else None
        meaning = node.meaning if produce else self._meaning(self._owner, node)
        span = node.start, node.end
        return FieldView(name, field_path, span, node.value, kind=kind, meaning=meaning, count=count, produce=produce)


def _describe_batch(batch: Node) -> str | None:
    """Return the one-line description of a batch that has not been opened."""
    nodes_by_name = {node.name: node for node in batch.children}
    count, attributes = nodes_by_name.get("records_count"), nodes_by_name.get("attributes")
    if count is None or attributes is None:
        return attributes.meaning if attributes else None
    return f"{count.value} record{'s' * (count.value != 1)}, {attributes.meaning}"
