"""Convert Protobuf schemas from text (``.proto``) to file descriptors, without ``protoc``.

Names of types stay as they are written, because `google.protobuf.descriptor_pool` resolves them. Options that do not
change the encoding are left out, and so are services and extensions.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from dissectors.values.errors import SchemaError

_BASE64 = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "bool", "string", "bytes", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    )
}
_LABELS = {
    ast.FieldCardinality.REQUIRED: _Field.LABEL_REQUIRED,
    ast.FieldCardinality.REPEATED: _Field.LABEL_REPEATED,
}
_EDITIONS = {"2023": descriptor_pb2.EDITION_2023, "2024": descriptor_pb2.EDITION_2024}


def file_descriptor(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a file.

    Args:
        name: The path by which other files import it.
        text: The file, or its descriptor in base64, as Confluent's client for Python registers it.

    Raises:
        SchemaError: The text is neither a file nor a descriptor.
    """
    if _BASE64.fullmatch(text):
        return _parse_descriptor(name, text)
    tree = parsed_file(text)
    file = descriptor_pb2.FileDescriptorProto(
        name=name, syntax=tree.syntax or ("editions" if tree.edition else "proto2")
    )
    if tree.edition:
        if tree.edition not in _EDITIONS:
            raise SchemaError(f"edition {tree.edition} is unknown")
        file.edition = _EDITIONS[tree.edition]
    for element in tree.file_elements:
        match element:
            case ast.Package():
                file.package = element.name
            case ast.Import():
                if element.public:
                    file.public_dependency.append(len(file.dependency))
                file.dependency.append(element.name)
            case ast.Option():
                _set_features(file.options, element)
            case ast.Message():
                _fill_message(file.message_type.add(), element, file.syntax)
            case ast.Enum():
                _fill_enum(file.enum_type.add(), element)
    return file


def parsed_file(text: str) -> ast.File:
    """Return the syntax tree of a file.

    Raises:
        SchemaError: The text is not a ``.proto`` file.
    """
    try:
        return Parser(setup_lexer=_raise_errors, setup_parser=_raise_errors).parse(text)
    except SchemaError:
        raise
    except Exception as error:  # noqa: BLE001  # the parser's own errors have no common class
        raise SchemaError(f"it is not a .proto file ({type(error).__name__})") from None


class _Listener(ErrorListener):  # type: ignore[misc]  # antlr4 has no types
    def syntaxError(self, *arguments: Any) -> None:  # noqa: N802
        _, _, line, column, *_ = arguments
        raise SchemaError(f"it is not a .proto file from line {line}, column {column + 1} on")


def _raise_errors(recognizer: Any) -> None:
    """Make the first error stop the parser, which by default prints it and guesses what was meant."""
    recognizer.removeErrorListeners()
    recognizer.addErrorListener(_Listener())


def _parse_descriptor(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except (ValueError, DecodeError):
        raise SchemaError("it is base64, but not of a descriptor") from None
    file.name = name
    return file


def _fill_message(message: Any, declaration: Any, syntax: str) -> None:
    message.name = declaration.name
    optional_fields = []  # the oneofs of proto3's optional fields come after all other oneofs
    for element in declaration.elements:
        match element:
            case ast.Message():
                _fill_message(message.nested_type.add(), element, syntax)
            case ast.Enum():
                _fill_enum(message.enum_type.add(), element)
            case ast.Field():
                field = _fill_field(message.field.add(), element)
                if syntax == "proto3" and element.cardinality is ast.FieldCardinality.OPTIONAL:
                    field.proto3_optional = True
                    optional_fields.append(field)
            case ast.MapField():
                _add_map(message, element)
            case ast.Group():
                _add_group(message, element, syntax)
            case ast.OneOf():
                index = len(message.oneof_decl)
                message.oneof_decl.add(name=element.name)
                for member in element.elements:
                    if isinstance(member, ast.Group):
                        _add_group(message, member, syntax).oneof_index = index
                    elif isinstance(member, ast.Field):
                        _fill_field(message.field.add(), member).oneof_index = index
            case ast.ExtensionRange():
                for numbers in element.ranges:
                    first, _, last = numbers.partition(" to ")
                    end = 1 << 29 if last == "max" else int(last or first) + 1
                    message.extension_range.add(start=int(first), end=end)
            case ast.Option():
                if element.name == "message_set_wire_format":
                    message.options.message_set_wire_format = element.value is True
                elif element.name == "map_entry":  # as Wire prints descriptors
                    message.options.map_entry = element.value is True
    for field in optional_fields:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _fill_field(field: Any, declaration: Any) -> Any:
    field.name, field.number = declaration.name, declaration.number
    field.label = _LABELS.get(declaration.cardinality, _Field.LABEL_OPTIONAL)
    _set_type(field, declaration.type)
    for option in declaration.options:
        if option.name == "packed":
            field.options.packed = option.value is True
        else:
            _set_features(field.options, option)
    return field


def _set_type(field: Any, name: str) -> None:
    if name in _SCALARS:
        field.type = _SCALARS[name]
    else:
        field.type_name = name  # a message or an enum; the pool finds out which


def _add_map(message: Any, declaration: Any) -> None:
    entry = message.nested_type.add(
        name="".join(word[:1].upper() + word[1:] for word in declaration.name.split("_")) + "Entry"
    )
    entry.options.map_entry = True
    for number, (name, type_) in enumerate((("key", declaration.key_type), ("value", declaration.value_type)), 1):
        _set_type(entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL), type_)
    message.field.add(
        name=declaration.name,
        number=declaration.number,
        label=_Field.LABEL_REPEATED,
        type=_Field.TYPE_MESSAGE,
        type_name=entry.name,
    )


def _add_group(message: Any, declaration: Any, syntax: str) -> Any:
    _fill_message(message.nested_type.add(), declaration, syntax)
    return message.field.add(
        name=declaration.name.lower(),
        number=declaration.number,
        label=_LABELS.get(declaration.cardinality, _Field.LABEL_OPTIONAL),
        type=_Field.TYPE_GROUP,
        type_name=declaration.name,
    )


def _fill_enum(enum: Any, declaration: Any) -> None:
    enum.name = declaration.name
    for element in declaration.elements:
        if isinstance(element, ast.EnumValue):
            enum.value.add(name=element.name, number=element.number)
        elif isinstance(element, ast.Option) and element.name == "allow_alias":
            enum.options.allow_alias = element.value is True


def _set_features(options: Any, option: Any) -> None:
    """Set a feature of an edition, such as ``features.field_presence = EXPLICIT``."""
    prefix, _, name = option.name.partition(".")
    if prefix == "features" and name in options.features.DESCRIPTOR.fields_by_name:
        enum = options.features.DESCRIPTOR.fields_by_name[name].enum_type
        if enum is not None and (value := enum.values_by_name.get(str(getattr(option.value, "name", option.value)))):
            setattr(options.features, name, value.number)
