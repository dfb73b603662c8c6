"""Limit the size of trees of values, and convert everything in them to plain values."""

from __future__ import annotations

from typing import Any

from dissectors.values.value import Tree, ValueLimits
from dissectors.wire.primitives import escape_surrogates

_MAX_INT, _MIN_INT = (1 << 64) - 1, -(1 << 63)  # the integers that JSON encoders write as numbers
_MAX_BITS = 8192  # Python refuses to format numbers of more than 4,300 digits
CUT = "(cut)"


def bound_tree(tree: Any, limits: ValueLimits) -> tuple[Tree, bool, int]:
    """Return a copy with text keys and plain values, whether something was left out, and the number of values.

    Values that are nested too deeply or exceed the limit on values become ``(cut)``, and so do numbers of more than
    8,192 bits. Other numbers of more than 64 bits, dates and other objects become text. Cycles end at the depth limit.
    """
    copier = _BoundedCopier(limits)
    bounded_tree = copier.copy(tree, 0)
    return bounded_tree, copier.is_cut, limits.nodes - copier.left


class _BoundedCopier:
    def __init__(self, limits: ValueLimits) -> None:
        self._limits = limits
        self.left = limits.nodes
        self.is_cut = False

    def copy(self, value: Any, depth: int) -> Tree:
        self.left -= 1
        if isinstance(value, str):
            return _safe_text(value)
        if isinstance(value, bool | float | bytes) or value is None:
            return value
        if isinstance(value, int):
            if value.bit_length() > _MAX_BITS:
                self.is_cut = True
                return CUT
            return value if _MIN_INT <= value <= _MAX_INT else str(value)
        if not isinstance(value, dict | list | tuple):
            return _safe_text(value)
        if depth >= self._limits.depth or self.left <= 0:
            self.is_cut = True
            return CUT
        if isinstance(value, dict):
            members: dict[str, Any] = {}
            for key, member in value.items():
                if self.left <= 0:
                    self.is_cut = True
                    break
                members[_safe_text(key)] = self.copy(member, depth + 1)
            return members
        items = []
        for element in value:
            if self.left <= 0:
                self.is_cut = True
                break
            items.append(self.copy(element, depth + 1))
        return items


def _safe_text(value: Any) -> str:
    if isinstance(value, str) and value.isascii():
        return value
    try:
        return escape_surrogates(str(value.isoformat() if hasattr(value, "isoformat") else value))
    except Exception:  # noqa: BLE001  # objects that libraries made from untrusted bytes
        return f"({type(value).__name__})"
