"""The trace as a Spark schema, generated from the definition of the lines, never inferred from data.

All kinds of lines share one wide row, in which every column may be null. Fields of a newer format are ignored; fields
that an older trace lacks are null.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from msgspec import inspect
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.trace.lines import FORMAT, KINDS, Timestamp

_TIMESTAMP = inspect.type_info(Timestamp)
_SIMPLE_TYPES: dict[type[inspect.Type], type[T.DataType]] = {
    inspect.StrType: T.StringType,
    inspect.IntType: T.LongType,
    inspect.FloatType: T.DoubleType,
    inspect.BoolType: T.BooleanType,
    # Values without fixed fields, such as bodies, stay JSON text: lossless, and free unless they are read.
    inspect.DictType: T.StringType,
}


def _spark_type(info: inspect.Type) -> T.DataType:
    info = _without_null(info)
    if info == _TIMESTAMP:
        return T.TimestampType()
    if isinstance(info, inspect.ListType):
        return T.ArrayType(_spark_type(info.item_type))
    if isinstance(info, inspect.TupleType):
        return T.ArrayType(_spark_type(info.item_types[0]))
    if isinstance(info, inspect.StructType):
        fields = {field.encode_name: _without_null(field.type) for field in info.fields}
        if any(isinstance(field, inspect.StructType) and field.cls is info.cls for field in fields.values()):
            return T.StringType()  # recursive, which Spark schemas cannot express, so also JSON text
        return T.StructType([T.StructField(name, _spark_type(field)) for name, field in fields.items()])
    return _SIMPLE_TYPES[type(info)]()


def _without_null(info: inspect.Type) -> inspect.Type:
    if not isinstance(info, inspect.UnionType):
        return info
    [kind] = [choice for choice in info.types if not isinstance(choice, inspect.NoneType)]
    return kind


def _fields(kind: str) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(KINDS[kind])
    assert isinstance(info, inspect.StructType)
    return info.fields


def required_fields(kind: str) -> list[str]:
    """Return the names of the fields that every line of a kind has."""
    return [field.name for field in _fields(kind) if field.required]


def _trace_type() -> T.StructType:
    types: dict[str, T.DataType] = {"kind": T.StringType()}
    for kind in KINDS:
        for field in _fields(kind):
            data_type = _spark_type(field.type)
            if types.setdefault(field.name, data_type) != data_type:
                raise TypeError(f"{field.name} of {kind} lines has a different type elsewhere")
    return T.StructType([T.StructField(name, data_type) for name, data_type in types.items()])


#: A line of a trace.
TRACE = _trace_type()

#: A line with its file. Or `corrupt`, a text that is not a line, or `damage`, a sentence about a file that could not be
#: read completely; then all columns of TRACE are null.
ROW = T.StructType([*TRACE.fields, *(T.StructField(name, T.StringType()) for name in ("file", "corrupt", "damage"))])

#: An unparsed line as text, with its file.
TEXT = T.StructType([T.StructField("value", T.BinaryType()), T.StructField("file", T.StringType())])

#: A row of a table made by `convert`, partitioned by the UTC `date` and `hour` of `ts`.
TABLE = T.StructType([*ROW.fields, T.StructField("date", T.DateType()), T.StructField("hour", T.IntegerType())])


def is_complete_line(line: Column) -> Column:
    """Return whether a struct of TRACE has the required fields of its kind; false for a newer format, never null."""

    def has_all_fields(kind: str) -> Column:
        conditions = [line[name].isNotNull() for name in required_fields(kind)]
        return reduce(and_, conditions, line["kind"] == kind)

    return F.coalesce(line["v"].between(1, FORMAT) & reduce(or_, map(has_all_fields, KINDS)), F.lit(False))
