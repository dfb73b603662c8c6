from __future__ import annotations

from collections import Counter

from kproxy.filters.fields import BY_NAME, FIELDS
from kproxy.trace.lines import KINDS


def test_every_trace_column_has_a_filter_field() -> None:
    columns = {"kind"}.union(*(line.__struct_fields__ for line in KINDS.values()))
    assert columns - set(BY_NAME) == {"v", "body", "frame", "repeated"}


def test_fields_read_only_columns_that_exist() -> None:
    columns = {"kind"}.union(*(line.__struct_fields__ for line in KINDS.values()))
    assert set().union(*(field.columns for field in FIELDS)) <= columns


def test_names_of_fields_are_unique() -> None:
    names = Counter(name for field in FIELDS for name in (field.name, *field.aliases))
    assert set(names.values()) == {1}


def test_suggested_line_kinds_are_those_of_the_trace() -> None:
    assert set(BY_NAME["kind"].known()) == set(KINDS)


def test_suggested_values_include_names_from_kafka() -> None:
    assert {"Fetch", "ApiVersions"} <= set(BY_NAME["api"].known())
    assert {"NONE", "UNKNOWN_SERVER_ERROR", "NOT_LEADER_OR_FOLLOWER"} <= set(BY_NAME["error"].known())
    assert "L001" in BY_NAME["finding"].known()
