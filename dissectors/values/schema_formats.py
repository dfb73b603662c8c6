"""The registry of formats that need a schema, by the type of the schema."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, TypeAlias

from dissectors.values.errors import MissingPackage
from dissectors.values.value import DecodedValue, Schema, ValueContext

#: (payload, schema, context, message indexes from a header) -> value, without the facts of the envelope; offsets count
#: from the payload.
SchemaFormat: TypeAlias = Callable[[bytes, Schema, ValueContext, bytes | None], DecodedValue]

_FORMATS: dict[str, SchemaFormat] = {}
#: The modules are loaded when they are needed: the packages that they import may not be installed.
_MODULES: Final = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}


def schema_format(type_: str) -> Callable[[SchemaFormat], SchemaFormat]:
    """Register a format for schemas of a type: ``AVRO``, ``PROTOBUF`` or ``JSON``."""

    def register(format_: SchemaFormat) -> SchemaFormat:
        _FORMATS[type_] = format_
        return format_

    return register


def format_of(schema: Schema) -> SchemaFormat | None:
    """The format for a schema; None if its type is unknown.

    Raises:
        MissingPackage: It needs a package that is not installed.
    """
    if (module := _MODULES.get(schema.type)) is None:
        return None
    if schema.type not in _FORMATS:
        try:
            importlib.import_module(f"dissectors.values.{module}")
        except ImportError as error:
            raise MissingPackage(error.name) from None
    return _FORMATS[schema.type]
