"""The fields of the filter language, for the page's script."""

from __future__ import annotations

from typing import Any

from kproxy.filters.fields import FIELDS, Kind
from kproxy.filters.values import DURATIONS, SIZES


def filter_fields() -> dict[str, Any]:
    """Return ``fields``, ``[name, aliases, kind, many, unit, values if limited]``, and ``units`` by kind."""
    return {
        "fields": [
            [field.name, field.aliases, field.kind, field.many, field.unit, field.known() if field.closed else ()]
            for field in FIELDS
        ],
        "units": {Kind.DURATION: DURATIONS, Kind.SIZE: SIZES},
    }
