"""Find the names of tagged fields in schemas."""

from __future__ import annotations

import pytest

from dissectors.values import Schema
from dissectors.values.tags import tagged_names


@pytest.mark.parametrize(
    ("type_", "text", "names"),
    [
        ("AVRO", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int", "confluent:tags": ["PII"]}, '
                 '{"name": "b", "type": "int", "confluent:tags": ["OPEN"]}]}', {"a"}),
        ("AVRO", '{"type": "record", "name": "A", "confluent:tags": ["PII"], "fields": [{"name": "a", "type": "int"}]}',
         {"a"}),
        ("AVRO", '{"type": "array", "items": {"type": "string", "confluent:tags": "PII"}}', {"*"}),
        ("AVRO", "{", {"*"}),
        ("AVRO", '"string"', set()),
        ("JSON", '{"properties": {"a": {"confluent:tags": ["PII"]}, "b": {"properties": {"c": {"confluent:tags": '
                 '["PII"]}}}}}', {"a", "c"}),
        ("JSON", '{"$defs": {"P": {"confluent:tags": ["PII"], "properties": {"x": {}}}}}', {"x"}),
        ("JSON", '{"confluent:tags": ["PII"]}', {"*"}),
        ("PROTOBUF", 'message A { string a = 1 [(confluent.field_meta).tags = "PII"]; string b = 2; '
                     'string c = 3 [(confluent.field_meta) = { tags: ["OPEN", "PII"] }, deprecated = true]; '
                     'string d = 4 [(confluent.field_meta).tags = "OPEN"]; }', {"a", "c"}),
        ("PROTOBUF", 'import "a.proto"; message A { oneof x { string a = 1 [(confluent.field_meta).tags = "PII"]; } '
                     'extensions 5; reserved 9; enum E { option allow_alias = true; B = 0; } }', {"a"}),
        ("PROTOBUF", "CgVhLnByb3Rv", {"*"}),  # a descriptor, which has its tags as unknown fields
        ("PROTOBUF", 'message A { option (confluent.message_meta).tags = "PII"; string a = 1; }', {"*"}),
    ],
)  # fmt: skip
def test_names_of_tagged_fields_are_found(type_: str, text: str, names: set[str]) -> None:
    assert tagged_names(Schema(type_, text), ("P*",)) == names
    assert tagged_names(Schema("AVRO", "{}", references={"x": Schema(type_, text)}), ("PII",)) == names
    if text not in ("{", "CgVhLnByb3Rv"):
        assert tagged_names(Schema(type_, text), ("OTHER",)) == set()
