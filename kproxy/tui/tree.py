"""The fields of one frame as a tree. It does not know the hex view: it posts messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from kproxy.browse.fields.field import MORE, FieldView
from kproxy.browse.fields.records import record_of
from kproxy.trace.formatting import safe

#: Arrays with at most this many elements are expanded at first.
_FEW_ELEMENTS = 8
#: Depth below the body to which the tree is expanded at first.
_DEPTH = 3


class FieldTree(Tree[FieldView]):
    """A tree of fields, whose nodes are created as they are expanded."""

    DEFAULT_CSS = """
    FieldTree { background: $surface; padding: 0 1; scrollbar-size: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("space", "app.pause", show=False),
        Binding("l,right", "open", show=False),
        Binding("h,left", "shut", show=False),
    ]

    @dataclass
    class Pointed(Message):
        """Posted when the cursor moves to a field."""

        tree: FieldTree
        field: FieldView

    @dataclass
    class Chosen(Message):
        """Posted to show a field in full; `chain` are the fields on the path to it, outermost first."""

        tree: FieldTree
        chain: list[FieldView]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False

    def show(self, fields: list[FieldView]) -> None:
        """Show other fields, with the most relevant ones expanded."""
        self.clear()
        self._add(self.root, fields)
        self.root.expand()
        for node in self.root.children:
            if node.data is not None and node.data.name != "header":
                self._open(node, _DEPTH)

    def _add(self, parent: TreeNode[FieldView], fields: list[FieldView]) -> None:
        for field in fields:
            parent.add(label(field), field, allow_expand=not field.is_leaf)

    def _open(self, node: TreeNode[FieldView], depth: int) -> None:
        """Expand a field, and small fields inside it."""
        self._fill(node)
        node.expand()
        if depth and len(node.children) <= _FEW_ELEMENTS:
            for child in node.children:
                if child.allow_expand and child.data is not None and child.data.kind != MORE:
                    self._open(child, depth - 1)

    def _fill(self, node: TreeNode[FieldView]) -> None:
        if node.data is not None and not node.children:
            children = node.data.children
            self._add(node, children)
            node.allow_expand = bool(children)

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[FieldView]) -> None:
        """Create the children."""
        event.stop()
        self._fill(event.node)

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[FieldView]) -> None:
        """Post the field under the cursor."""
        event.stop()
        if event.node.data is not None:
            self.post_message(self.Pointed(self, event.node.data))

    def on_tree_node_selected(self, event: Tree.NodeSelected[FieldView]) -> None:
        """Expand or collapse a field; show a field without children, or a record, in full."""
        event.stop()
        node = event.node
        chain = _chain(node)
        if node.allow_expand and record_of(chain) is None:
            node.toggle()
        elif chain:
            self.post_message(self.Chosen(self, chain))

    def action_open(self) -> None:
        """Expand the field, or move into it."""
        node = self.cursor_node
        if node is not None and node.allow_expand and not node.is_expanded:
            node.expand()
        else:
            self.action_cursor_down()

    def action_shut(self) -> None:
        """Collapse the field, or move to its parent."""
        node = self.cursor_node
        if node is not None and node.is_expanded and node.allow_expand:
            node.collapse()
        elif node is not None and node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)

    def point_at(self, chain: list[FieldView]) -> None:
        """Move the cursor to the last field of a path from the root, expanding its parents."""
        node = self.root
        for field in chain:
            self._fill(node)
            node.expand()
            child_node = next((child for child in node.children if child.data is field), None)
            if child_node is None:
                break
            node = child_node
        if node is not self.root:
            self.call_after_refresh(self._move_to, node)

    def _move_to(self, node: TreeNode[FieldView]) -> None:
        self.move_cursor(node)
        self.scroll_to_node(node, animate=False)


def _chain(node: TreeNode[FieldView]) -> list[FieldView]:
    """Return the fields on the path to a node, outermost first."""
    chain: list[FieldView] = []
    current: TreeNode[FieldView] | None = node
    while current is not None and current.data is not None:
        chain.append(current.data)
        current = current.parent
    return chain[::-1]


def label(field: FieldView) -> Text:
    """Return the label ``name  value  meaning  kind``."""
    text = Text(no_wrap=True)
    text.append(safe(field.name), "bold" if not field.name.startswith("[") else "dim")
    if value := field.text:
        text.append("  " + value, "green" if field.count is None else "dim")
    if field.meaning:
        text.append("  " + safe(field.meaning), "cyan")
    if field.kind and field.kind != MORE:
        text.append("  " + field.kind, "dim italic")
    return text
