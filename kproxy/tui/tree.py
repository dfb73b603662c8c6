"""The fields of one frame as a tree. Knows nothing of who shows the bytes: it posts messages."""

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

#: An array of so few elements is open from the beginning.
_FEW = 8
#: How deep the tree is open from the beginning, below the body.
_DEPTH = 3


class FieldTree(Tree[FieldView]):
    """Fields, made as they are opened."""

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
        """The cursor is on a field."""

        tree: FieldTree
        field: FieldView

    @dataclass
    class Chosen(Message):
        """A field is to be shown whole; `at_byte` leads to it, outermost first."""

        tree: FieldTree
        chain: list[FieldView]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False

    def show(self, fields: list[FieldView]) -> None:
        """Show other fields; what one wants to see of them is open."""
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
        """Open a field, and what is below it as long as that is not much."""
        self._fill(node)
        node.expand()
        if depth and len(node.children) <= _FEW:
            for child in node.children:
                if child.allow_expand and child.data is not None and child.data.kind != MORE:
                    self._open(child, depth - 1)

    def _fill(self, node: TreeNode[FieldView]) -> None:
        if node.data is not None and not node.children:
            children = node.data.children
            self._add(node, children)
            node.allow_expand = bool(children)

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[FieldView]) -> None:
        """Make what is inside."""
        event.stop()
        self._fill(event.node)

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[FieldView]) -> None:
        """Tell which bytes are meant."""
        event.stop()
        if event.node.data is not None:
            self.post_message(self.Pointed(self, event.node.data))

    def on_tree_node_selected(self, event: Tree.NodeSelected[FieldView]) -> None:
        """Open or close a field; one without children is shown whole, and so is a record."""
        event.stop()
        node = event.node
        chain = _way(node)
        if node.allow_expand and record_of(chain) is None:
            node.toggle()
        elif chain:
            self.post_message(self.Chosen(self, chain))

    def action_open(self) -> None:
        """Open the field, or go into it."""
        node = self.cursor_node
        if node is not None and node.allow_expand and not node.is_expanded:
            node.expand()
        else:
            self.action_cursor_down()

    def action_shut(self) -> None:
        """Close the field, or go out of it."""
        node = self.cursor_node
        if node is not None and node.is_expanded and node.allow_expand:
            node.collapse()
        elif node is not None and node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)

    def point_at(self, chain: list[FieldView]) -> None:
        """Put the cursor on the last field of a way from the top, open what it lies in."""
        node = self.root
        for field in chain:
            self._fill(node)
            node.expand()
            found = next((child for child in node.children if child.data is field), None)
            if found is None:
                break
            node = found
        if node is not self.root:
            self.call_after_refresh(self._settle, node)

    def _settle(self, node: TreeNode[FieldView]) -> None:
        self.move_cursor(node)
        self.scroll_to_node(node, animate=False)


def _way(node: TreeNode[FieldView]) -> list[FieldView]:
    """The fields on the way to a node, outermost first."""
    chain: list[FieldView] = []
    at: TreeNode[FieldView] | None = node
    while at is not None and at.data is not None:
        chain.append(at.data)
        at = at.parent
    return chain[::-1]


def label(field: FieldView) -> Text:
    """``name  value  meaning  kind``."""
    text = Text(no_wrap=True)
    text.append(safe(field.name), "bold" if not field.name.startswith("[") else "dim")
    if said := field.text:
        text.append("  " + said, "green" if field.count is None else "dim")
    if field.meaning:
        text.append("  " + safe(field.meaning), "cyan")
    if field.kind and field.kind != MORE:
        text.append("  " + field.kind, "dim italic")
    return text
