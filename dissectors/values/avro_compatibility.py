"""Check whether data written with one Avro schema can be read with another.

Source: the Avro 1.12 specification, "Schema Resolution"; Java's SchemaCompatibility, which compares names without their
namespaces.
"""

from __future__ import annotations

from dissectors.values.avro_schema import AvroType

#: The types of a writer that a reader's type can also read.
_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
_MAX_NESTED = 200


def incompatibility(reader: AvroType, writer: AvroType) -> str | None:
    """Return a clause with the field that keeps the reader from reading all data of the writer; None if it can."""
    return _Comparison().difference(reader, writer, (), 0)


class _Comparison:
    def __init__(self) -> None:
        #: Results by pair of types; pairs that are still being compared count as compatible.
        self._results: dict[tuple[int, int], str | None] = {}

    def difference(self, reader: AvroType, writer: AvroType, path: tuple[str, ...], depth: int) -> str | None:
        pair = (id(reader), id(writer))
        if pair in self._results:
            return self._results[pair]
        if depth > _MAX_NESTED:
            return _clause_at(path, "nested too deeply to compare")
        self._results[pair] = None
        incompatibility = self._results[pair] = self._compare(reader, writer, path, depth + 1)
        return incompatibility

    def _compare(self, reader: AvroType, writer: AvroType, path: tuple[str, ...], depth: int) -> str | None:
        if writer.kind == "union":
            incompatibilities = (self.difference(reader, branch, path, depth) for branch in writer.branches)
            return next((incompatibility for incompatibility in incompatibilities if incompatibility is not None), None)
        if reader.kind == "union":
            if any(self.difference(branch, writer, path, depth) is None for branch in reader.branches):
                return None
            return _clause_at(path, f"no branch of the reader's union reads {_type_text(writer)}")
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return None
            return _clause_at(path, f"the reader has {_type_text(reader)}, the writer {_type_text(writer)}")
        if reader.items is not None and writer.items is not None:
            return self.difference(reader.items, writer.items, (*path, "[]"), depth)
        if reader.name is not None and _unqualified(reader.name) != _unqualified(writer.name):
            return _clause_at(path, f"the reader has {_type_text(reader)}, the writer {_type_text(writer)}")
        if reader.kind == "fixed" and reader.size != writer.size:
            return _clause_at(path, f"the reader has {reader.size} bytes, the writer {writer.size}")
        if reader.kind == "enum" and not reader.has_default:
            missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
            return _clause_at(path, f"the reader has no symbol {', '.join(missing)}") if missing else None
        return self._compare_fields(reader, writer, path, depth)

    def _compare_fields(self, reader: AvroType, writer: AvroType, path: tuple[str, ...], depth: int) -> str | None:
        writer_fields = dict(writer.fields)
        for name, field in reader.fields:
            names = (name, *reader.aliases.get(name, ()))
            writer_field = next((writer_fields[alias] for alias in names if alias in writer_fields), None)
            if writer_field is None:
                if name not in reader.defaults:
                    return _clause_at((*path, name), "the reader needs this field, which has no default")
            elif (difference := self.difference(field, writer_field, (*path, name), depth)) is not None:
                return difference
        return None


def _type_text(type_: AvroType) -> str:
    return type_.kind if type_.name is None else f"{type_.kind} {type_.name}"


def _unqualified(name: str | None) -> str:
    return (name or "").rpartition(".")[2]


def _clause_at(path: tuple[str, ...], text: str) -> str:
    return f"{'.'.join(path)}: {text}" if path else text
