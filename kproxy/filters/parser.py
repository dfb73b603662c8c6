"""Parses a filter into its syntax tree."""

from __future__ import annotations

from kproxy.filters.errors import FilterError, corrected_name, suggestion
from kproxy.filters.fields import BY_NAME, FilterField, field_named
from kproxy.filters.lexer import CONNECTIVES, FilterToken, TokenType, tokens
from kproxy.filters.nodes import And, Comparison, Node, Not, Or, Presence, Text, Value

_MAX_NESTING = 50  # of parentheses and nots, so that no text can exhaust the stack


def parse_node(text: str) -> Node:
    """Parse a filter. Values are checked later, by `compile_node`.

    Raises:
        FilterError: The syntax is invalid.
    """
    parser = _Parser(text)
    node = parser.parse_or()
    parser.expect_end()
    return node


class _Parser:
    """A recursive-descent parser: ``not`` binds tighter than ``and``, ``and`` than ``or``."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._position = 0
        self._depth = 0

    @property
    def _token(self) -> FilterToken:
        return self._tokens[self._position]

    def _take(self) -> FilterToken:
        token = self._token
        self._position += 1
        return token

    def _take_sign(self, value: str) -> bool:
        is_next = self._token.type is TokenType.SIGN and self._token.value == value
        self._position += is_next
        return is_next

    def _error(self, message: str, hint: str = "") -> FilterError:
        return FilterError(message, self._token.start, self._token.end, hint)

    def expect_end(self) -> None:
        token = self._token
        if token.type is TokenType.SIGN and token.value == ")":
            raise self._error("')' without '('")
        if token.type is not TokenType.END:
            raise self._error("'and' or 'or' is missing", "quote values that contain spaces or operators")

    def parse_or(self) -> Node:
        terms = [self._parse_and()]
        while self._take_sign("or"):
            terms.append(self._parse_and())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _parse_and(self) -> Node:
        terms = [self._parse_term()]
        while self._take_sign("and"):
            terms.append(self._parse_term())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _parse_term(self) -> Node:
        token = self._token
        if token.type is TokenType.SIGN and token.value in ("not", "("):
            self._position += 1
            self._depth += 1
            if self._depth > _MAX_NESTING:
                raise FilterError("parentheses are nested too deeply", token.start, token.end)
            node = Not(self._parse_term()) if token.value == "not" else self._parse_group(token)
            self._depth -= 1
            return node
        return self._parse_comparison()

    def _parse_group(self, opening: FilterToken) -> Node:
        node = self.parse_or()
        if not self._take_sign(")"):
            if self._token.type is TokenType.END:
                raise FilterError("'(' without ')'", opening.start, opening.end)
            self.expect_end()
        return node

    def _parse_comparison(self) -> Node:
        if (text := self._parse_text()) is not None:
            return text
        field = self._parse_field()
        operator = self._token
        if operator.type is TokenType.OPERATOR:
            self._position += 1
            negated = operator.value.startswith("!")
            sign = {"!=": "=", "!~": "~"}.get(operator.value, operator.value)
            return Comparison(field, sign, (self._parse_value(operator.value),), negated, operator.start, operator.end)
        negated = self._take_sign("not")
        if self._take_sign("in"):
            return Comparison(field, "in", self._parse_values(), negated, operator.start, operator.end)
        if negated:
            raise self._error("'in' is missing after 'not'", f"use not {field.name}, or {field.name} not in (...)")
        return Presence(field)

    def _parse_text(self) -> Text | None:
        """Parse a text to search for: a quoted one, or a word that is neither a field nor compared with something."""
        token, next_token = self._token, self._tokens[min(self._position + 1, len(self._tokens) - 1)]
        is_compared = next_token.type is TokenType.OPERATOR or (
            next_token.type is TokenType.SIGN and next_token.value in ("in", "not")
        )
        if is_compared or token.type not in (TokenType.WORD, TokenType.STRING):
            return None
        is_quoted = token.type is TokenType.STRING
        if not is_quoted:
            if field_named(token.value) is not None:
                return None
            if (corrected := corrected_name(token.value, BY_NAME)) is not None:
                hint = f"did you mean {corrected!r}? Quote it to search for the text"
                raise FilterError(f"unknown field {token.value!r}", token.start, token.end, hint)
        if not token.value:
            raise self._error("the text to search for is empty")
        self._position += 1
        return Text(Value(token.value, is_quoted, token.start, token.end))

    def _parse_field(self) -> FilterField:
        if self._token.type is not TokenType.WORD:
            raise self._error("a field is missing", "a term looks like api=Fetch")
        token = self._take()
        if (field := field_named(token.value)) is None:
            hint = suggestion(token.value, BY_NAME)
            raise FilterError(f"unknown field {token.value!r}", token.start, token.end, hint)
        return field

    def _parse_value(self, preceding: str) -> Value:
        if self._token.type not in (TokenType.WORD, TokenType.STRING):
            hint = f'quote it: "{self._token.value}"' if self._token.value in CONNECTIVES else ""
            hint = "use in (...) for several values" if self._token.value == "(" else hint
            raise self._error(f"a value is missing after {preceding!r}", hint)
        token = self._take()
        return Value(token.value, token.type is TokenType.STRING, token.start, token.end)

    def _parse_values(self) -> tuple[Value, ...]:
        if not self._take_sign("("):
            raise self._error("'(' is missing after 'in'", "example: in (Fetch, Produce)")
        values = [self._parse_value("(")]
        while self._take_sign(","):
            values.append(self._parse_value(","))
        if not self._take_sign(")"):
            raise self._error("',' or ')' is missing")
        return tuple(values)
