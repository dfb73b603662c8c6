"""The filter language: compiles text to a function over trace lines (docs/filters.md)."""

from __future__ import annotations

from kproxy.filters.completion import complete
from kproxy.filters.errors import FilterError
from kproxy.filters.filter import Filter, parse

__all__ = ["Filter", "FilterError", "complete", "parse"]
