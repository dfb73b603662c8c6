"""The table of values that may differ names fields that exist."""

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


def names_in(message: str) -> set[str]:
    return {name for version in versions(message) for name in fields(layout(message, version))}


def test_every_field_of_the_table_is_one_of_kafkas() -> None:
    known = set().union(*map(names_in, {*schemas.message_names(), *PAYLOADS})) | RECORD_DATA
    assert set(_BY_FIELD) - known == set()
    for message, name in _IN_MESSAGE:
        assert name in names_in(message), (message, name)


def test_a_name_has_another_meaning_in_some_messages() -> None:
    assert kind_of("JoinGroupResponse", "leader") is ValueKind.MEMBER_ID
    assert kind_of("MetadataResponse", "leader_id") is ValueKind.NODE_ID
    assert kind_of("DescribeAclsResponse", "host") is None
    assert kind_of("MetadataResponse", "name") is None


def test_only_a_kind_with_none_can_be_unset() -> None:
    assert is_unset(ValueKind.PRODUCER_ID, -1)
    assert is_unset(ValueKind.SESSION_ID, 0)
    assert not is_unset(ValueKind.PRODUCER_ID, 0)
    assert not is_unset(ValueKind.ERROR_MESSAGE, None)
