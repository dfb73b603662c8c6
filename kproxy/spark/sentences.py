"""Parts of sentences as Spark columns, formatted like `kproxy.outputs.text` and `kproxy.groups`."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column
from pyspark.sql import functions as F

#: The suffix of a member id that Kafka derives from a client id or a static member's instance id: a UUID.
_WITH_UUID = r"^(.{1,20}).*?-([^-]{4})[^-]{4}(?:-[^-]+){4}$"


def text(*parts: Column | str) -> Column:
    """Concatenated columns and literals; null if a column is."""
    return F.concat(*(F.lit(part) if isinstance(part, str) else part for part in parts))


def duration(us: Column) -> Column:
    """``850 us``, ``2.1 ms``, ``30.5 s``."""
    return (
        F.when(us < 1000, F.format_string("%d us", us.cast("long")))
        .when(us < 1_000_000, text(fixed(us / 1000, 1), " ms"))
        .otherwise(text(fixed(us / 1_000_000, 1), " s"))
    )


def amount(value: Column) -> Column:
    """``0.034``, ``3.1``, ``14``, ``1,400``: at least two digits, and six decimals at most.

    Engines differ in ``%g``, which is why it is not used.
    """
    decimals = {10.0: 0, 1.0: 1, 0.1: 2, 0.01: 3, 0.001: 4, 0.0001: 5}
    shown = F.when(value == 0, "0.0")
    for least, count in decimals.items():
        shown = shown.when(value >= least, fixed(value, count))
    return shown.otherwise(fixed(value, 6))


def fixed(value: Column, decimals: int) -> Column:
    """A number with so many decimals, half rounded up: engines differ in how their formats round."""
    rounded = F.round(value.cast("decimal(38,6)"), decimals).cast("double")
    return F.format_string(f"%,.{decimals}f", rounded)


def times(count: Column) -> Column:
    """``once``, ``3 times``."""
    return F.when(count == 1, "once").otherwise(text(count.cast("string"), " times"))


def names(labels: Column, most: int = 3) -> Column:
    """The first names of an array: ``shop-a, shop-b, shop-c and 4 more``."""
    more = F.size(labels) - most
    shown = F.array_join(F.slice(labels, 1, most), ", ")
    return F.when(more > 0, text(shown, " and ", more.cast("string"), " more")).otherwise(shown)


def host(address: Column) -> Column:
    """The host of ``host:port``, unchanged."""
    return F.regexp_replace(address, ":[^:]*$", "")


def member_label(client_id: Column, member_id: Column) -> Column:
    """A short label of a member: client id, and a distinguishing suffix."""
    client = F.coalesce(client_id, F.lit(""))
    own = text(client, "-")
    rest = F.when(F.startswith(member_id, own), F.substring(member_id, F.length(own) + 1, F.length(member_id)))
    rest = F.coalesce(rest, member_id, F.lit(""))
    short = F.when(F.rlike(rest, F.lit(_WITH_UUID)), F.regexp_replace(rest, _WITH_UUID, "$1-$2"))
    label = F.trim(text(F.left(client, F.lit(30)), " ", F.coalesce(short, F.left(rest, F.lit(6)))))
    return F.when(label == "", "(no client id)").otherwise(label)


def chosen(key: Column, values: dict[str, str]) -> Column:
    """The value of a key; null if there is none."""
    return F.create_map(*map(F.lit, chain.from_iterable(values.items())))[key]
