"""Parts of sentences as Spark columns, formatted like `kproxy.outputs.text` and `kproxy.groups`."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column
from pyspark.sql import functions as F

#: The suffix of a member id that Kafka derives from a client id or a static member's instance id: a UUID.
_WITH_UUID = r"^(.{1,20}).*?-([^-]{4})[^-]{4}(?:-[^-]+){4}$"


def text(*parts: Column | str) -> Column:
    """Return concatenated columns and literals; null if a column is null."""
    return F.concat(*(F.lit(part) if isinstance(part, str) else part for part in parts))


def fixed_point(value: Column, digits: int, unit: float = 1) -> Column:
    """Return a number in a unit, with decimals. Halves are rounded up first, because engines round differently."""
    scale = 10**digits
    return F.format_string(f"%.{digits}f" if digits else "%,.0f", F.floor(value / (unit / scale) + 0.5) / scale)


def duration(us: Column) -> Column:
    """Return a duration as text: ``850 us``, ``2.1 ms``, ``30.5 s``."""
    return (
        F.when(us < 1000, F.format_string("%d us", us.cast("long")))
        .when(us < 1_000_000, text(fixed_point(us, 1, 1000), " ms"))
        .otherwise(text(fixed_point(us, 1, 1_000_000), " s"))
    )


def format_amount(value: Column) -> Column:
    """Format a number with at least two significant digits: ``0.034``, ``14``, ``1,400``.

    Sail's ``%.2g`` would turn 4 into ``4.`` and 0 into NaN.
    """
    formatted = F.when(value == 0, "0.0").when(value < 0.0000995, F.format_string("%.1e", value))
    for digits in (5, 4, 3, 2, 1):
        formatted = formatted.when(value < 9.95 / 10 ** (digits - 1), fixed_point(value, digits))
    return formatted.otherwise(fixed_point(value, 0))


def times_text(count: Column) -> Column:
    """Return a number of times as text: ``once``, ``3 times``."""
    return F.when(count == 1, "once").otherwise(text(count.cast("string"), " times"))


def names_text(labels: Column, max_names: int = 3) -> Column:
    """Return the first names of an array as text: ``shop-a, shop-b, shop-c and 4 more``."""
    hidden_count = F.size(labels) - max_names
    shown_names = F.array_join(F.slice(labels, 1, max_names), ", ")
    return F.when(hidden_count > 0, text(shown_names, " and ", hidden_count.cast("string"), " more")).otherwise(
        shown_names
    )


def host(address: Column) -> Column:
    """Return the host part of ``host:port``, unchanged."""
    return F.regexp_replace(address, ":[^:]*$", "")


def member_label(client_id: Column, member_id: Column) -> Column:
    """Return a short label for a member: its client id, and a distinguishing suffix."""
    client = F.coalesce(client_id, F.lit(""))
    prefix = text(client, "-")
    suffix = F.when(F.startswith(member_id, prefix), F.substring(member_id, F.length(prefix) + 1, F.length(member_id)))
    suffix = F.coalesce(suffix, member_id, F.lit(""))
    short_suffix = F.when(F.rlike(suffix, F.lit(_WITH_UUID)), F.regexp_replace(suffix, _WITH_UUID, "$1-$2"))
    label = F.trim(text(F.left(client, F.lit(30)), " ", F.coalesce(short_suffix, F.left(suffix, F.lit(6)))))
    return F.when(label == "", "(no client id)").otherwise(label)


def lookup(key: Column, values: dict[str, str]) -> Column:
    """Return the value of a key; null if there is none."""
    return F.create_map(*map(F.lit, chain.from_iterable(values.items())))[key]
