"""The registry of formats that need a schema, by the type of the schema."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dissectors.values.errors import MissingPackage, SchemaError
from dissectors.values.value import DecodedValue, Schema, ValueContext

#: (payload, schema, context, message indexes from a header) -> value, without the facts about the envelope; offsets
#: count from the start of the payload.
SchemaFormat: TypeAlias = Callable[[bytes, Schema, ValueContext, bytes | None], DecodedValue]

_FORMATS: dict[str, SchemaFormat] = {}
#: The modules are loaded when needed, because the packages that they import may not be installed.
_MODULES: Final = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}


def schema_format(type_: str) -> Callable[[SchemaFormat], SchemaFormat]:
    """Register a format for schemas of a type: ``AVRO``, ``PROTOBUF`` or ``JSON``."""

    def register(format_: SchemaFormat) -> SchemaFormat:
        _FORMATS[type_] = format_
        return format_

    return register


def format_of(schema: Schema) -> SchemaFormat | None:
    """Return the format for a schema; None if its type is unknown.

    Raises:
        MissingPackage: The format needs a package that is not installed.
    """
    if schema.type not in _FORMATS:
        _import_format(schema.type)
    return _FORMATS.get(schema.type)


def check_schema(schema: Schema) -> None:
    """Check that a schema can be used to decode values. This takes several seconds for a Protobuf file of 1 MB.

    Raises:
        SchemaError: The schema is invalid.
        MissingPackage: Its format needs a package that is not installed.
    """
    if (module := _import_format(schema.type)) is None:
        raise SchemaError(f"schemas of type {schema.type} are not supported")
    try:
        module.check(schema)
    except SchemaError:
        raise
    except Exception as error:  # noqa: BLE001  # of a library that reads untrusted text
        raise SchemaError(f"{type(error).__name__} while it was checked") from None


def _import_format(type_: str) -> Any:
    if (name := _MODULES.get(type_)) is None:
        return None
    try:
        return importlib.import_module(f"dissectors.values.{name}")
    except ImportError as error:
        raise MissingPackage(error.name) from None
