"""The violations in a request that a broker refused, and the registry of the checks that find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from dissectors.schemas.codes import Error

Values = dict[str, Any]


class Violation(NamedTuple):
    """A requirement of Kafka that a request does not meet.

    Args:
        error: The error that Kafka returns for it.
        text: A clause: ``rebalance_timeout_ms is -1``.
        change: An instruction: ``send rebalance_timeout_ms``.
        target: The topic, group or partition that it is about; empty for the whole request.
        premise: A clause that several violations share: ``with member_epoch 0 the request must be complete``.
    """

    error: Error
    text: str
    change: str
    target: str = ""
    premise: str = ""


Validation = Callable[[Values, int], Iterator[Violation]]
ValidationT = TypeVar("ValidationT", bound=Validation)

VALIDATIONS: dict[str, list[Validation]] = {}


def validates(*apis: str) -> Callable[[ValidationT], ValidationT]:
    """Register a check ``(body, version) -> violations`` for requests of these APIs."""

    def register(check: ValidationT) -> ValidationT:
        for api in apis:
            VALIDATIONS.setdefault(api, []).append(check)
        return check

    return register


def rows(values: Values, name: str) -> list[Values]:
    """Return the structs in an array; none if it is null or missing."""
    return [row for row in values.get(name) or () if isinstance(row, dict)]


def is_blank(text: Any) -> bool:
    """Whether a text is present but empty or only white space, which Kafka refuses."""
    return isinstance(text, str) and not text.strip()


def value_text(value: Any) -> str:
    """Format a value of a request for use in a sentence."""
    if value is None:
        return "null"
    if value == []:
        return "empty"
    return repr(value) if isinstance(value, str) else str(value)
