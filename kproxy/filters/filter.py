"""The compiled filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kproxy.filters import line_text
from kproxy.filters.evaluate import compile_node
from kproxy.filters.fields import Kind
from kproxy.filters.nodes import Leaf, Node, Presence, Text, leaves
from kproxy.filters.parser import parse_node


class Filter:
    """A compiled filter. Filters with the same terms are equal; `str` returns text that parses to an equal filter.

    ``matches(line)`` reports whether a trace line matches. The line consists of plain dicts and lists, as from
    `kproxy.trace.encoding.as_mapping`; keys may be absent or None. ``columns`` are the keys that the filter reads.
    ``needed_columns`` leaves out ``kind`` if the filter reads it only to select frames, gaps or connections.
    """

    __slots__ = ("columns", "matches", "needed_columns", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.matches: Callable[[Mapping[str, Any]], bool] = compile_node(node)
        self.columns = frozenset().union(*map(_columns, leaves(node)))
        self.needed_columns = self.columns if any(map(_may_match_findings, leaves(node))) else self.columns - {"kind"}

    @property
    def reads_records(self) -> bool:
        """Whether the filter needs decoded keys, values or headers of records."""
        return any(not isinstance(leaf, Text) and leaf.field.kind is Kind.RECORD for leaf in leaves(self.node))

    @property
    def searches_text(self) -> bool:
        """Whether the filter searches all texts of a line, including its body if it has one."""
        return any(isinstance(leaf, Text) for leaf in leaves(self.node))

    def __str__(self) -> str:
        return str(self.node)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)


def parse(text: str) -> Filter:
    """Parse a filter such as ``api=Fetch and latency>50ms``.

    Raises:
        FilterError: The filter is invalid. The message includes the column; `start` and `end` are the span.
    """
    return Filter(parse_node(text))


#: Kinds of lines that do not depend on rules.
_PLAIN_KINDS = frozenset({"open", "request", "response", "gap", "close"})


def _may_match_findings(leaf: Leaf) -> bool:
    """Whether a term about the kind may match a line that only reports a finding or a stall."""
    if isinstance(leaf, Text) or leaf.field.name != "kind":
        return False
    if isinstance(leaf, Presence):
        return True
    is_plain = not leaf.negated and leaf.operator in ("=", "in") and _PLAIN_KINDS.issuperset(map(str, leaf.values))
    return not is_plain


def _columns(leaf: Leaf) -> frozenset[str]:
    return line_text.COLUMNS if isinstance(leaf, Text) else leaf.field.columns
