"""Limit: a threshold of a rule that users may set, and that is parsed from text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

#: The suffixes that a number may have, by the unit of the limit.
_FACTORS: Final[Mapping[str, Mapping[str, float]]] = {
    "s": {"": 1, "s": 1, "ms": 1e-3, "m": 60, "h": 3600},
    "%": {"": 1, "%": 1},
    "bytes": {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30},
}
_EXAMPLES: Final = {"s": "5s or 500ms", "%": "90%", "bytes": "65536 or 1M"}
_MAX_BY_UNIT: Final = {"s": 86_400.0, "%": 100.0}
_MAX_VALUE: Final = 1e12


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """A threshold of one rule, which registers it. A limit is equal only to itself.

    Attributes:
        name: A word that is unique in the rule.
        default: Its value if users set none.
        unit: ``s``, ``%``, ``bytes``, or a noun in the plural for whole numbers, such as ``connections``.
        meaning: When the rule reports something, as the end of a sentence.
        least: The smallest valid value.
    """

    name: str
    default: float
    unit: str
    meaning: str
    least: float = 1

    def parse(self, text: str) -> float:
        """Return the value that a text stands for: ``20``, ``5s``, ``90%``, ``1M``.

        Raises:
            ValueError: The text is invalid. The message is the end of a sentence that says what is valid.
        """
        factors = _FACTORS.get(self.unit, {"": 1})
        number = text.strip()
        unit = next(
            (factor for factor in sorted(factors, key=len, reverse=True) if factor and number.endswith(factor)), ""
        )
        try:
            value = float(number.removesuffix(unit)) * factors[unit]
        except ValueError:
            value = math.nan
        is_whole = self.unit in _FACTORS or value == value // 1
        if not (is_whole and self.least <= value <= self.most):  # also false for NaN
            raise ValueError(self._valid_values())
        return value

    @property
    def most(self) -> float:
        """The largest valid value."""
        return _MAX_BY_UNIT.get(self.unit, _MAX_VALUE)

    def text(self, value: float) -> str:
        """Return a value with its unit, as `parse` accepts it."""
        if self.unit in ("s", "%"):
            return f"{value:g}{self.unit}"
        return f"{value:.0f}"

    def _valid_values(self) -> str:
        upper = f" to {self.text(self.most)}" if self.unit in _MAX_BY_UNIT else " or more"
        unit_text = "" if self.unit in ("s", "%") else f" {self.unit}"
        return (
            f"use {self.text(self.least)}{upper}{unit_text}, e.g. {_EXAMPLES.get(self.unit, self.text(self.default))}"
        )


#: The limits that users have set.
Values = Mapping[Limit, float]
NO_VALUES: Final[Values] = MappingProxyType({})
