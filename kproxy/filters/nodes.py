"""The syntax tree of a filter. Converted to text, it is a filter that parses to the same tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.filters.fields import FilterField
from kproxy.filters.lexer import quoted


@dataclass(frozen=True, slots=True)
class Value:
    """A value without its quotes. `start` and `end` are its position in the filter's text."""

    text: str
    quoted: bool
    start: int = dataclasses.field(default=0, compare=False)
    end: int = dataclasses.field(default=0, compare=False)

    def __str__(self) -> str:
        return quoted(self.text) if self.quoted else self.text


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field compared with a value, or with several (``in``). If negated, it is true if no value matches."""

    field: FilterField
    operator: str  # = < <= > >= ~ in
    values: tuple[Value, ...]
    negated: bool = False
    start: int = dataclasses.field(default=0, compare=False)  # of the operator
    end: int = dataclasses.field(default=0, compare=False)

    def __str__(self) -> str:
        if self.operator == "in":
            return f"{self.field.name}{' not' * self.negated} in ({', '.join(map(str, self.values))})"
        return f"{self.field.name}{'!' * self.negated}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Presence:
    """A field without an operator: true if it has a value other than false or a count of 0."""

    field: FilterField

    def __str__(self) -> str:
        return self.field.name


@dataclass(frozen=True, slots=True)
class Text:
    """A text to search for: true if a text of the line contains it, ignoring case."""

    value: Value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Not:
    """True if its term is false."""

    term: Node

    def __str__(self) -> str:
        return f"not {_operand_text(self.term, And, Or)}"


@dataclass(frozen=True, slots=True)
class And:
    """True if all terms are true."""

    terms: tuple[Node, ...]

    def __str__(self) -> str:
        return " and ".join(_operand_text(term, And, Or) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or:
    """True if any term is true."""

    terms: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(_operand_text(term, Or) for term in self.terms)


Leaf = Comparison | Presence | Text
Node = Leaf | Not | And | Or


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the terms of a filter without connectives."""
    if isinstance(node, Leaf):
        yield node
    else:
        for term in (node.term,) if isinstance(node, Not) else node.terms:
            yield from leaves(term)


def _operand_text(term: Node, *looser_types: type[Node]) -> str:
    return f"({term})" if isinstance(term, looser_types) else str(term)
