"""The table of values that may differ refers only to existing fields."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.embedded.payload_formats import PAYLOADS
from dissectors.wire.layout import Layout, layout, versions
from kproxy.comparison.kinds import _BY_FIELD, _IN_MESSAGE, ValueKind, is_unset, kind_of

RECORD_DATA = {"crc", "batch_length", "base_timestamp", "partition_leader_epoch"}


def fields(struct: Layout) -> Iterator[str]:
    for field in (*struct.fields, *struct.tagged):
        yield field.name
        if field.struct is not None:
            yield from fields(field.struct)


def field_names_in(message: str) -> set[str]:
    return {name for version in versions(message) for name in fields(layout(message, version))}


def test_every_field_in_the_table_exists_in_kafka() -> None:
    known_fields = set().union(*map(field_names_in, {*schemas.message_names(), *PAYLOADS})) | RECORD_DATA
    assert set(_BY_FIELD) - known_fields == set()
    for message, name in _IN_MESSAGE:
        assert name in field_names_in(message), (message, name)


def test_value_kind_of_a_field_depends_on_the_message() -> None:
    assert kind_of("JoinGroupResponse", "leader") is ValueKind.MEMBER_ID
    assert kind_of("MetadataResponse", "leader_id") is ValueKind.NODE_ID
    assert kind_of("DescribeAclsResponse", "host") is None
    assert kind_of("MetadataResponse", "name") is None


def test_only_kinds_with_an_empty_value_can_be_unset() -> None:
    assert is_unset(ValueKind.PRODUCER_ID, -1)
    assert is_unset(ValueKind.SESSION_ID, 0)
    assert not is_unset(ValueKind.PRODUCER_ID, 0)
    assert not is_unset(ValueKind.ERROR_MESSAGE, None)
