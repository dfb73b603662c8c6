"""Validation by a JSON Schema in bounded time, for any schema and value.

jsonschema searches with Python's `re`, compares every pair of elements for ``uniqueItems``, and follows references as
often as they occur, so a value of a few bytes can take hours. Here, RE2 searches in linear time, and steps are limited.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import re2
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from dissectors.values.errors import SchemaError
from dissectors.wire.primitives import escape_surrogates

#: Applying a keyword to a value takes a step, and one more for each member of both; a step takes a few microseconds.
MAX_STEPS: Final = 200_000
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False

#: Checks a keyword; takes the validator, the keyword's value, the instance, and the schema with the keyword.
_Check: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

_steps = 0


def first_violation(validator: Any, value: Any) -> ValidationError | None:
    """Return the first error that a validator finds; its class must be from `bounded_validator`.

    Raises:
        SchemaError: There were too many steps, or the schema cannot be used.
    """
    global _steps  # jsonschema passes on nothing that could hold the count
    _steps = 0
    try:
        error: ValidationError | None = next(validator.iter_errors(value), None)
    except SchemaError:
        raise
    except Exception as failure:  # noqa: BLE001  # references without a target, recursive schemas
        raise SchemaError(f"{type(failure).__name__} while validating") from None
    return error


def steps_taken() -> int:
    """Return the number of steps that the last `first_violation` took."""
    return _steps


@functools.cache
def bounded_validator(class_: Any, *, has_patterns: bool) -> Any:
    """Return the validator class of a dialect, with keywords that take bounded time.

    If the schema has ``patternProperties``, ``unevaluatedProperties`` is not checked, because jsonschema would search
    with `re`.
    """
    bounded_checks: dict[str, _Check] = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "uniqueItems": _unique_items,
    }
    if has_patterns:
        bounded_checks["unevaluatedProperties"] = _accept_all
    keywords = {
        name: _with_step_count(name, bounded_checks.get(name, check)) for name, check in class_.VALIDATORS.items()
    }
    validator_class: Any = extend(class_, keywords)
    evolve = validator_class.evolve

    def evolve_bounded(self: Any, **changes: Any) -> Any:
        """Keep the validator bounded even if part of a schema has its own ``$schema``."""
        evolved = evolve(self, **changes)
        dialect: Any = type(evolved)
        if dialect is validator_class:
            return evolved
        return bounded_validator(dialect, has_patterns=has_patterns)(
            evolved.schema,
            registry=evolved._registry,  # noqa: SLF001
            _resolver=evolved._resolver,  # noqa: SLF001
        )

    validator_class.evolve = evolve_bounded
    return validator_class


def _with_step_count(name: str, check: _Check) -> _Check:
    is_quadratic = name.startswith("unevaluated")

    def check_counted(validator: Any, keyword: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        global _steps
        _steps += 1 + sum(len(operand) for operand in (keyword, instance) if isinstance(operand, dict | list))
        if is_quadratic and isinstance(instance, dict | list):
            _steps += len(instance) ** 2 // 16
        if _steps > MAX_STEPS:
            raise SchemaError("validation takes too many steps")
        yield from check(validator, keyword, instance, schema) or ()

    return check_counted


def _accept_all(*_: Any) -> None:
    """Accept any value."""


def _check_pattern(validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and _search(pattern, instance) is False:
        yield ValidationError("the text does not match")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, schema in patterns.items():
        for name, member in instance.items():
            if _search(pattern, name):
                yield from validator.descend(member, schema, path=name, schema_path=pattern)


def _check_additional_properties(
    validator: Any, extra_schema: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    properties, patterns = schema.get("properties", {}), list(schema.get("patternProperties", {}))
    for name, member in instance.items():
        if name in properties or any(_search(pattern, name) is not False for pattern in patterns):
            continue
        if extra_schema is False:
            yield ValidationError("a property is unexpected")
        else:
            yield from validator.descend(member, extra_schema, path=name)


def _unique_items(validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not unique or not validator.is_type(instance, "array"):
        return
    if len({json.dumps(element, sort_keys=True) for element in instance}) < len(instance):
        yield ValidationError("elements are equal")


def _search(pattern: Any, text: str) -> bool | None:
    """Return whether a pattern matches somewhere; None if RE2 does not support it, e.g. because it has lookaround."""
    compiled = _compile(pattern)
    return None if compiled is None else compiled.search(escape_surrogates(text)) is not None


@functools.lru_cache(1024)
def _compile(pattern: Any) -> Any:
    try:
        return re2.compile(escape_surrogates(pattern), _OPTIONS)
    except (re2.error, TypeError, AttributeError):
        return None
