"""JSON described by a JSON Schema. Validation needs the extra ``payloads``."""

from __future__ import annotations

import json
from typing import Any

from jsonschema.exceptions import SchemaError as InvalidSchema
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from dissectors.values.errors import SchemaError, bad_schema, cached_parser
from dissectors.values.json_text import parse_json
from dissectors.values.json_validation import bounded_validator, first_violation, steps_taken
from dissectors.values.schema_formats import schema_format
from dissectors.values.value import DecodedValue, ProblemKind, Schema, ValueContext, ValueProblem

#: The cost of a step of validation, in steps of `dissectors.records.allowance`.
_STEP = 3


@schema_format("JSON")
def json_schema(payload: bytes, schema: Schema, context: ValueContext, indexes: bytes | None) -> DecodedValue:
    """Decode and validate JSON. The problem is the first violation; it does not quote the value."""
    try:
        value = parse_json(payload)
    except (ValueError, RecursionError):
        problem = ValueProblem("the payload is not JSON", 0, ProblemKind.DOES_NOT_FIT)
        return DecodedValue("json-schema", payload, problem=problem)
    try:
        validator, title = _validator(schema)
        violation = _violation(validator, value)
    except SchemaError as error:
        title, violation = None, bad_schema(error)
    return DecodedValue("json-schema", value, type=title, problem=violation, steps=_STEP * steps_taken())


def check(schema: Schema) -> None:
    """Raise `SchemaError` if the schema is invalid."""
    declaration = _parse_schema(schema.text)
    try:
        validator_for(declaration, default=Draft7Validator).check_schema(declaration)
    except InvalidSchema as error:
        path = ".".join(map(str, error.absolute_path)) or "the schema"
        raise SchemaError(f"{path} violates {error.validator!r} of its metaschema") from None


@cached_parser
def _validator(schema: Schema) -> tuple[Any, str | None]:
    resources, texts = [], [schema.text]
    pending = dict(schema.references)
    seen: set[str] = set()
    while pending:
        name, reference = pending.popitem()
        if name not in seen:
            seen.add(name)
            texts.append(reference.text)
            resources.append(
                (name, Resource.from_contents(_parse_schema(reference.text), default_specification=DRAFT7))
            )
            pending |= reference.references
    declaration = _parse_schema(schema.text)
    title = declaration.get("title") if isinstance(declaration, dict) else None
    registry: Registry[Any] = Registry().with_resources(resources)
    validator_class = validator_for(declaration, default=Draft7Validator)
    has_patterns = any("patternProperties" in text for text in texts)
    validator = bounded_validator(validator_class, has_patterns=has_patterns)(declaration, registry=registry)
    return validator, title if isinstance(title, str) else None


def _parse_schema(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("it is not JSON") from None


def _violation(validator: Any, value: Any) -> ValueProblem | None:
    error = first_violation(validator, value)
    if error is None:
        return None
    path = ".".join(map(str, error.absolute_path)) or "the value"
    return ValueProblem(f"{path} violates {error.validator!r} of its JSON Schema", kind=ProblemKind.VIOLATION)
