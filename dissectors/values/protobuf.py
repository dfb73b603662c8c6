"""Read Protobuf messages by a schema given as a ``.proto`` file. Needs the extra ``payloads``."""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.unknown_fields import UnknownFieldSet

from dissectors.values.envelope import message_indexes
from dissectors.values.errors import SchemaError, bad_schema, cached_parser
from dissectors.values.proto_text import file_descriptor
from dissectors.values.schema_formats import schema_format
from dissectors.values.value import DecodedValue, ProblemKind, Schema, ValueContext, ValueProblem
from dissectors.wire.errors import DecodeError

_Path: TypeAlias = tuple[int, ...]

_MAIN = "(schema).proto"
_MAX_FILES = 200
_MAX_FITTING = 3
_REF_NAME, _REF_PREFIX = 0x0A, 3
_WELL_KNOWN_FILE = re.compile(r"google/protobuf/([a-z_]+)\.proto")


@schema_format("PROTOBUF")
def protobuf(payload: bytes, schema: Schema, context: ValueContext, indexes: bytes | None) -> DecodedValue:
    """Decode a message.

    Enums are decoded to their names, timestamps and durations to text; absent fields without presence get defaults.
    """
    try:
        classes = _classes(schema)
    except SchemaError as error:
        return DecodedValue("protobuf", payload, problem=bad_schema(error))
    if named_messages := _named_messages(payload, classes, context):
        return _read_first_fitting(payload, *named_messages)
    in_header = indexes is not None
    try:
        if indexes is not None:
            (path, _), start = message_indexes(indexes), 0
        else:
            path, start = message_indexes(payload)
    except DecodeError as error:
        candidates = [] if in_header else _fitting_messages(payload, classes, "without message indexes")
        problem = _problem([error.message, *candidates], None if in_header else error.offset, ProblemKind.MESSAGE_INDEX)
        return DecodedValue("protobuf", payload, problem=problem)
    if not (messages := classes.get(path)):
        text = f"the schema has no message with index {_path_text(path)}"
        candidates = _fitting_messages(payload[start:], classes) or (
            [] if in_header else _fitting_messages(payload, classes, "without indexes")
        )
        problem = _problem([text, *candidates], None if in_header else 0, ProblemKind.MESSAGE_INDEX)
        return DecodedValue("protobuf", payload[start:], problem=problem)
    value = _read_first_fitting(payload, messages, start)
    if value.problem is not None and (candidates := _fitting_messages(payload[start:], classes)):
        text = "; ".join([value.problem.text, *candidates])
        return replace(value, problem=replace(value.problem, text=text, kind=ProblemKind.DOES_NOT_FIT))
    return value


def _named_messages(
    payload: bytes, classes: dict[_Path, list[Any]], context: ValueContext
) -> tuple[list[Any], int] | None:
    """Return the messages with the name that Apicurio's serializer wrote, and where the data starts; None without any.

    The name is in a header. Without headers, it is in a size-prefixed message ``Ref {string name = 1}`` before the
    data.

    Source: Apicurio's ProtobufKafkaSerializer.
    """
    name, start = None, 0
    if any(context.header(f"apicurio.{context.part}.{header}") for header in ("globalId", "contentId")):
        name = context.header("apicurio.protobuf.type")
    elif len(payload) > _REF_PREFIX and payload[1] == _REF_NAME and payload[0] == payload[2] + 2:
        start = payload[0] + 1
        name = payload[_REF_PREFIX:start]
    text = name.decode(errors="replace") if name else ""
    named_messages = [message for types in classes.values() for message in types if message.DESCRIPTOR.name == text]
    return (named_messages, start) if named_messages else None


def _read_first_fitting(payload: bytes, messages: list[Any], start: int) -> DecodedValue:
    """Return the value of the first message that fits or, if none does, of the first message."""
    values = [_read_message(payload, start, message) for message in messages]
    return next((value for value in values if value.problem is None), values[0])


def _path_text(path: _Path) -> str:
    return ".".join(map(str, path))


def _problem(clauses: list[str], offset: int | None, kind: ProblemKind) -> ValueProblem:
    return ValueProblem("; ".join(clauses), offset, kind)


def _fitting_messages(data: bytes, classes: dict[_Path, list[Any]], prefix: str = "") -> list[str]:
    """Return a clause that names the messages of the schema that the bytes fit; empty if they fit none or too many."""
    names = []
    for path, types in classes.items():
        message = types[0]()
        try:
            message.ParseFromString(data)
        except ProtobufError:
            continue
        if message.ListFields() and not any(_unknown_fields(message)) and message.ByteSize() == len(data):
            names.append(f"{types[0].DESCRIPTOR.full_name} (index {_path_text(path)})")
    return [f"{prefix} they fit {' or '.join(names)}".lstrip()] if 0 < len(names) <= _MAX_FITTING else []


def _read_message(payload: bytes, start: int, message_type: Any) -> DecodedValue:
    name = message_type.DESCRIPTOR.full_name
    message = message_type()
    try:
        message.ParseFromString(payload[start:])
    except ProtobufError:
        problem = ValueProblem(f"these bytes are not a {name}", start, ProblemKind.DOES_NOT_FIT)
        return DecodedValue("protobuf", payload[start:], type=name, problem=problem)
    value_problem = None
    if unknown := sorted({*_unknown_fields(message)}):
        numbers_text = ", ".join(map(str, unknown[:5]))
        text = f"fields that {name} does not have: {numbers_text}; probably another message or schema"
        kind = ProblemKind.UNKNOWN_FIELDS if message.ListFields() else ProblemKind.DOES_NOT_FIT
        value_problem = ValueProblem(text, kind=kind)
    reencoded = message.SerializeToString(deterministic=True)
    reencoding = "equal"
    if reencoded != payload[start:] and message.SerializeToString() != payload[start:]:
        size = len(payload) - start
        reencoding = (
            "differs: fields or map entries are in another order"
            if len(reencoded) == size
            else f"differs: {len(reencoded)} bytes instead of {size}, as for defaults that are written"
        )
    return DecodedValue("protobuf", _message_tree(message), type=name, problem=value_problem, reencoding=reencoding)


def messages(schema: Schema) -> dict[str, Any]:
    """Return the descriptors of a schema's messages, by full name.

    Raises:
        SchemaError: The schema cannot be used.
    """
    return {
        message.DESCRIPTOR.full_name: message.DESCRIPTOR for types in _classes(schema).values() for message in types
    }


def check(schema: Schema) -> None:
    """Raise `SchemaError` if the schema is invalid."""
    _build_pool(schema)


def serialized(schema: Schema) -> str:
    """Return the descriptor of the schema's file in base64, with the full names of types.

    Raises:
        SchemaError: The schema is invalid.
    """
    pool, _ = _build_pool(schema)
    return base64.b64encode(pool.FindFileByName(_MAIN).serialized_pb).decode()


def _build_pool(schema: Schema) -> tuple[Any, Any]:
    """Return a pool with the schema's file and the files that it imports, and the descriptor of the file."""
    pool = descriptor_pool.DescriptorPool()
    file = file_descriptor(_MAIN, schema.text)
    _add_file(pool, file, schema, set())
    return pool, file


@cached_parser
def _classes(schema: Schema) -> dict[tuple[int, ...], list[Any]]:
    """Return the message classes of a schema by index path. A path may have two classes (see `_declared_messages`)."""
    pool, file = _build_pool(schema)
    classes: dict[tuple[int, ...], list[Any]] = {}
    for paths, name in _declared_messages(file):
        descriptor = pool.FindMessageTypeByName(f"{file.package}.{name}".lstrip("."))
        for path in dict.fromkeys(paths):
            classes.setdefault(path, []).append(message_factory.GetMessageClass(descriptor))
    return classes


def _declared_messages(file: Any) -> Iterator[tuple[tuple[_Path, _Path], str]]:
    """Yield the indexes, counted in two ways, and the name of each message in a file.

    Serializers disagree on the nested messages that represent the entries of maps: those that work on descriptors count
    them (Python, Go, .NET), Java's does not.
    """
    waiting: list[tuple[tuple[_Path, _Path], str, Any]] = [
        (((index,), (index,)), declaration.name, declaration) for index, declaration in enumerate(file.message_type)
    ]
    for (path_with_maps, path_without_maps), name, message in waiting:
        yield (path_with_maps, path_without_maps), name
        message_count = 0
        for index, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                waiting.append(
                    (((*path_with_maps, index), (*path_without_maps, message_count)), f"{name}.{nested.name}", nested)
                )
                message_count += 1


def _add_file(pool: Any, file: Any, schema: Schema, added: set[str]) -> None:
    """Add a file, after the files that it imports. Missing imports are dropped: they may define only options."""
    if len(added) > _MAX_FILES:
        raise SchemaError(f"it imports more than {_MAX_FILES} files")
    kept_names = []
    for name in file.dependency:
        if name in added:
            kept_names.append(name)
            continue
        if (well_known_file := _well_known_descriptor(name)) is not None:
            added.add(name)
            _add_file(pool, well_known_file, schema, added)
        elif (reference := schema.references.get(name)) is not None:
            added.add(name)
            _add_file(pool, file_descriptor(name, reference.text), reference, added)
        else:
            continue
        kept_names.append(name)
    if len(kept_names) < len(file.dependency):
        public_names = [file.dependency[index] for index in file.public_dependency]
        del file.dependency[:], file.public_dependency[:]
        file.dependency.extend(kept_names)
        file.public_dependency.extend(kept_names.index(name) for name in public_names if name in kept_names)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        raise SchemaError(str(error)[:200]) from None


def _well_known_descriptor(name: str) -> Any:
    """Return the descriptor of one of Protobuf's own files; None for other files."""
    if (match := _WELL_KNOWN_FILE.fullmatch(name)) is None:
        return None
    try:
        module = importlib.import_module(f"google.protobuf.{match[1]}_pb2")
    except ImportError:
        return None
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def _message_tree(message: Any) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        try:
            return message.ToJsonString()
        except ValueError:
            pass  # out of range, so shown as fields
    members: dict[str, Any] = {}
    for field in descriptor.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                value_field = field.message_type.fields_by_name["value"]
                members[field.name] = {_key_text(key): _scalar(value[key], value_field) for key in value}
            else:
                members[field.name] = [_scalar(element, field) for element in value]
        elif not field.has_presence or message.HasField(field.name):
            members[field.name] = _scalar(value, field)
    return members


def _scalar(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _message_tree(value)
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return value if enum_value is None else enum_value.name
    return value


def _key_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown_fields(message: Any) -> Iterator[int]:
    yield from (field.field_number for field in UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for element in value.values():
                    yield from _unknown_fields(element)
        else:
            for element in value if field.is_repeated else (value,):
                yield from _unknown_fields(element)
