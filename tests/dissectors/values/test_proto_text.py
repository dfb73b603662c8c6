"""Descriptors from text equal those that ``protoc --descriptor_set_out=NAME.binpb NAME.proto`` wrote."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import google.protobuf.timestamp_pb2
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from dissectors.values.errors import SchemaError
from dissectors.values.proto_text import file_descriptor

PROTOC = Path(__file__).parent / "protoc"


def message_facts(message: Any) -> Any:
    """Return the facts that decoding depends on."""
    fields = [
        (
            *(
                field.name,
                field.number,
                field.type,
                field.is_repeated,
                field.is_required,
                field.is_packed,
                field.has_presence,
            ),
            *(
                descriptor and descriptor.full_name
                for descriptor in (field.message_type, field.enum_type, field.containing_oneof)
            ),
        )
        for field in message.fields
    ]
    enums = [
        (enum_type.full_name, [(value.name, value.number) for value in enum_type.values])
        for enum_type in message.enum_types
    ]
    return message.full_name, fields, enums, message.GetOptions().map_entry, [*map(message_facts, message.nested_types)]


def message_descriptors(file: descriptor_pb2.FileDescriptorProto) -> list[Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(google.protobuf.timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return [*map(message_facts, pool.FindFileByName(file.name).message_types_by_name.values())]


@pytest.mark.parametrize("name", ["rich", "old", "edition"])
def test_descriptors_from_text_equal_those_of_protoc(name: str) -> None:
    [expected] = descriptor_pb2.FileDescriptorSet.FromString((PROTOC / f"{name}.binpb").read_bytes()).file
    text = (PROTOC / f"{name}.proto").read_text()
    assert message_descriptors(file_descriptor(f"{name}.proto", text)) == message_descriptors(expected)
    serialized = base64.b64encode(expected.SerializeToString()).decode()
    assert message_descriptors(file_descriptor(f"{name}.proto", serialized)) == message_descriptors(expected)


@pytest.mark.parametrize("text", ["", "message", "{", "YWJj", "=" * 8, 'edition = "1999";', "message M { int32 a = 1;"])
def test_text_that_is_not_a_schema_is_rejected(text: str) -> None:
    if text:
        with pytest.raises(SchemaError):
            file_descriptor("a.proto", text)
    else:
        assert not file_descriptor("a.proto", text).message_type
