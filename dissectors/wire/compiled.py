"""The fast path: each layout is compiled to a Python function that decodes regular bytes to values.

A layout is compiled when it is first used. A run of fixed-width fields and the length that follows it become one
`struct` call; arrays become inline loops; nothing is looked up per field. The function accepts only regular bytes. Any
irregularity, from a bad length to a boolean of 2, raises an exception; `dissectors.wire.walk` then reads the same bytes
again and reports what is wrong and where.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from dissectors.wire.layout import CODES, WIDTHS, Field, Layout, cached_on_owner
from dissectors.wire.plausibility import PlausibilityCheck, has_usual_text, plausibility_check, usual_range
from dissectors.wire.primitives import MAX_ELEMENTS, Irregularity, read_uvarint, uuid_text

#: (bytes, start offset) -> (values, one past the last byte read, flags): `TAGGED`, `ERROR_CODE` and `UNUSUAL`.
#: Raises one of `Irregular` if any byte is irregular.
Decoder = Callable[[bytes, int], tuple[dict[str, Any], int, int]]
#: A whole frame with its length prefix -> (header, body, start of the body, flags); raises like `Decoder`.
FrameDecoder = Callable[[bytes], tuple[dict[str, Any], dict[str, Any], int, int]]
Irregular = (ValueError, IndexError, struct.error)

#: Flag: at least one tag buffer is not empty.
TAGGED: Final = 1
#: Flag: at least one error code is not 0.
ERROR_CODE: Final = 2
#: Flag: a value is unusual. Only the first element of an array is checked, so the cost does not depend on its size.
UNUSUAL: Final = 4

_LENGTH_CODES = {"int8": ("b", 1), "int16": ("h", 2), "int32": ("i", 4)}
_ENCODINGS = {None, "uvarint", *_LENGTH_CODES}
_BOOLEANS = (False, True)


@cached_on_owner
def decoder(layout: Layout) -> Decoder:
    """Return the compiled decoder of a layout."""
    return _Compiler().compile(layout) if _is_compilable(layout) else _always_irregular


def frame_decoder(header: Layout, body: Layout) -> FrameDecoder:
    """Return the compiled decoder of whole frames: one call for header, body and the check that no byte is left."""
    return _Compiler().compile_frame(header, body)


def _is_compilable(layout: Layout) -> bool:
    """Whether a schema can produce this layout. Some edits produce layouts that only the walk can read."""
    if layout.tag_fault:
        return False
    return all(
        {field.length, field.element_length} <= _ENCODINGS
        and field.deviating_element is None
        and (field.struct is None or _is_compilable(field.struct))
        for field in (*layout.fields, *layout.tagged)
    )


def _always_irregular(data: bytes, pos: int) -> tuple[dict[str, Any], int, int]:
    raise Irregularity


class _Compiler:
    """Writes the source of one decoder. It generates every local name; none comes from the wire."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "Irregularity": Irregularity, "uvarint": read_uvarint, "uuid": uuid_text, "TRUTH": _BOOLEANS,
            "unpack": struct.unpack_from, "tags": _read_tags,
        }  # fmt: skip
        self.count = 0
        self.depth = 1

    def compile(self, layout: Layout) -> Decoder:
        self.emit("e = len(b); c = 0; f = [0]")
        if _has_records(layout):
            self.emit("m = memoryview(b)")
        self.emit(f"r = {self.emit_struct(layout)}")
        self.emit_unusual_check(layout, "r")
        self.emit("return r, p, f[0]")
        compiled: Decoder = self.build_function(layout, "b, p")
        return compiled

    def compile_frame(self, header: Layout, body: Layout) -> FrameDecoder:
        self.emit("e = len(b); p = 4; c = 0; f = [0]")
        if _has_records(body):
            self.emit("m = memoryview(b)")
        for name, layout in (("h", header), ("r", body)):
            self.emit(f"{name} = {self.emit_struct(layout)}")
            self.emit_unusual_check(layout, name)
            if layout is header:
                self.emit("s = p; c = 0")
        self.emit("if p != e: raise Irregularity")
        self.emit("return h, r, s, f[0]")
        compiled: FrameDecoder = self.build_function(body, "b")
        return compiled

    def build_function(self, layout: Layout, parameters: str) -> Any:
        source = f"def decode({parameters}):\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, f"<layout {layout.name}>", "exec"), self.constants)  # noqa: S102  # our own source
        return self.constants["decode"]

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def new_name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def new_constant(self, prefix: str, value: object) -> str:
        name = self.new_name(prefix)
        self.constants[name] = value
        return name

    def emit_struct(self, layout: Layout) -> str:
        """Emit code that reads a struct; return the expression of its dict."""
        items: list[str] = []
        run: list[tuple[str, str, int]] = []  # (variable, struct code, width) of fields still to be read
        for field in layout.fields:
            value = self.new_name()
            item = value
            if not field.array and field.type in WIDTHS:
                run.append((value, CODES[field.type], WIDTHS[field.type]))
                item = {"bool": f"TRUTH[{value}]", "uuid": f"uuid({value})"}.get(field.type, value)
            else:
                self.emit_variable(field, value, run)
                run = []
            items.append(f"{field.name!r}: {self.checked_expression(field, item)}")
        expression = "{" + ", ".join(items) + "}"
        if not layout.flexible:
            self.emit_fixed(run)
            return expression
        count, values = self.new_name("t"), self.new_name()
        self.emit_byte(count, run)
        self.emit(f"{values} = {expression}")
        self.emit(f"if {count}: p = tags(b, p, {count}, {self.new_constant('L', layout)}, {values}, f)")
        return values

    def emit_unusual_check(self, layout: Layout, values: str) -> None:
        """Emit code that sets `UNUSUAL` if a value of a struct, or of the first elements of its arrays, is unusual."""
        conditions = []
        for field in layout.fields:
            value = f"{values}[{field.name!r}]"
            if limits := usual_range(field):
                conditions.append(f"{limits[0]} <= {value} <= {limits[1]}")
            elif has_usual_text(field):
                conditions.append(f"({value} or '').isprintable()" if field.nullable else f"{value}.isprintable()")
        if conditions:
            self.emit(f"if not ({' and '.join(conditions)}): f[0] |= {UNUSUAL}")
        for field in layout.fields:
            if field.struct is not None and _can_be_unusual(field.struct):
                nested = self.new_name("j")
                self.emit(f"{nested} = {values}[{field.name!r}]")
                self.emit(f"if {nested}:")
                self.depth += 1
                if field.array:
                    self.emit(f"{nested} = {nested}[0]")
                self.emit_unusual_check(field.struct, nested)
                self.depth -= 1

    def checked_expression(self, field: Field, value: str) -> str:
        """Return the expression of a value, wrapped in the plausibility check of its field, if any."""
        check = plausibility_check(field)
        if check is None:
            return value
        if field.type == "int16":  # an error code
            return f"({value} and {self.new_constant('P', _error_code_checker(check))}({value}, f))"
        return f"({value} and {self.new_constant('P', _value_checker(check))}({value}))"

    def emit_fixed(self, run: list[tuple[str, str, int]]) -> None:
        if not run:
            return
        unpack = self.new_constant("S", struct.Struct(">" + "".join(code for _, code, _ in run)).unpack_from)
        self.emit(
            f"{', '.join(name for name, _, _ in run)}, = {unpack}(b, p); p += {sum(width for _, _, width in run)}"
        )

    def emit_byte(self, value: str, run: list[tuple[str, str, int]]) -> None:
        """Emit code that reads `run` and the byte after it."""
        if run:
            self.emit_fixed([*run, (value, "B", 1)])
        else:
            self.emit(f"{value} = b[p]; p += 1")

    def emit_variable(self, field: Field, value: str, run: list[tuple[str, str, int]]) -> None:
        """Emit code that reads `run` and the length of a field in one call, then the value of the field."""
        if field.length is None:
            self.emit_fixed(run)
            assert field.struct is not None
            self.emit(f"{value} = {self.emit_struct(field.struct)}")
            return
        size = self.new_name("n")
        self.emit_length(field.length, size, run)
        if field.type == "struct" and not field.array:
            self.emit_nullable_struct(field, value, size)
            return
        compact = field.length == "uvarint"
        self.emit(f"if {size} > 0:" if compact else f"if {size} >= 0:")
        self.depth += 1
        if compact:
            self.emit(f"{size} -= 1")
        if field.array:
            self.emit_array(field, value, size)
        else:
            self.emit_sized(field.type, value, size)
        self.depth -= 1
        self.emit_null(field.nullable, value, size, compact)

    def emit_length(self, encoding: str, size: str, run: list[tuple[str, str, int]]) -> None:
        if encoding == "uvarint":
            self.emit_byte(size, run)
            self.emit(f"if {size} > 127: {size}, p = uvarint(b, p, {size})")
        else:
            self.emit_fixed([*run, (size, *_LENGTH_CODES[encoding])])

    def emit_null(self, nullable: bool, value: str, size: str, compact: bool) -> None:
        if nullable and compact:
            self.emit(f"else: {value} = None")
        elif nullable:
            self.emit(f"elif {size} == -1: {value} = None")
        if not (nullable and compact):
            self.emit("else: raise Irregularity")

    def emit_nullable_struct(self, field: Field, value: str, marker: str) -> None:
        """Emit code that reads a nullable struct: its presence marker is 1; null is -1, or 0 in a tagged field."""
        assert field.struct is not None
        self.emit(f"if {marker} == 1:")
        self.depth += 1
        self.emit(f"{value} = {self.emit_struct(field.struct)}")
        self.depth -= 1
        self.emit(f"elif {marker} == {0 if field.length == 'uvarint' else -1}: {value} = None")
        self.emit("else: raise Irregularity")

    def emit_sized(self, kind: str, value: str, size: str) -> None:
        end = self.new_name("q")
        self.emit(f"{end} = p + {size}")
        self.emit(f"if {end} > e: raise Irregularity")
        source = {"string": f"b[p:{end}].decode()", "records": f"m[p:{end}]"}.get(kind, f"b[p:{end}]")
        self.emit(f"{value} = {source}; p = {end}")

    def emit_array(self, field: Field, value: str, size: str) -> None:
        element = field.struct
        # Check the count against the remaining bytes before allocating the array.
        self.emit(f"if {size} * {max(_min_element_bytes(field), 1)} > e - p: raise Irregularity")
        if element is not None:
            self.emit(f"c += {size}")
            self.emit(f"if c > {MAX_ELEMENTS}: raise Irregularity")
        if element is None and field.type in WIDTHS:
            self.emit_primitives(field.type, value, size)
        elif element is not None and (codes := _fixed_struct_codes(element)):
            names = [self.new_name() for _ in element.fields]
            width, end = sum(WIDTHS[f.type] for f in element.fields), self.new_name("q")
            unpack = self.new_constant("S", struct.Struct(">" + codes).iter_unpack)
            wrappers = {"bool": "TRUTH[{}]", "uuid": "uuid({})"}
            items = [
                f"{f.name!r}: {self.checked_expression(f, wrappers.get(f.type, '{}').format(n))}"
                for f, n in zip(element.fields, names, strict=True)
            ]
            self.emit(f"{end} = p + {size} * {width}")
            self.emit(f"{value} = [{{{', '.join(items)}}} for {', '.join(names)}, in {unpack}(b[p:{end}])]; p = {end}")
        else:
            self.emit(f"{value} = []")
            self.emit(f"for _ in range({size}):")
            self.depth += 1
            item = self.new_name()
            if element is not None:
                item = self.emit_struct(element)
            else:
                self.emit_variable(Field("", field.type, length=field.element_length), item, [])
            self.emit(f"{value}.append({item})")
            self.depth -= 1

    def emit_primitives(self, kind: str, value: str, size: str) -> None:
        if kind == "uuid":
            expression = f"[uuid(b[i:i + 16]) for i in range(p, p + {size} * 16, 16)]"
        elif kind == "bool":
            expression = f"[TRUTH[x] for x in b[p:p + {size}]]"
        else:
            expression = f"list(unpack(f'>{{{size}}}{CODES[kind]}', b, p))"
        self.emit(f"{value} = {expression}; p += {size} * {WIDTHS[kind]}")


def _value_checker(check: PlausibilityCheck) -> Callable[[Any], Any]:
    """Return a function that returns a plausible value and raises for an implausible one."""

    def check_value(value: Any) -> Any:
        if not check(value):
            raise Irregularity
        return value

    return check_value


def _error_code_checker(check: PlausibilityCheck) -> Callable[[int, list[int]], int]:
    """Do the same as `_value_checker` for error codes other than 0; the function also sets the `ERROR_CODE` flag."""

    def check_code(value: int, flags: list[int]) -> int:
        if not check(value):
            raise Irregularity
        flags[0] |= ERROR_CODE
        return value

    return check_code


def _can_be_unusual(layout: Layout) -> bool:
    return any(
        usual_range(f) or has_usual_text(f) or (f.struct is not None and _can_be_unusual(f.struct))
        for f in layout.fields
    )


def _has_records(layout: Layout) -> bool:
    return any(f.type == "records" or (f.struct is not None and _has_records(f.struct)) for f in layout.fields)


def _fixed_struct_codes(layout: Layout) -> str:
    """Return the struct codes of a layout that has only fixed-width fields; empty for other layouts."""
    if layout.flexible or not all(f.type in WIDTHS and not f.array for f in layout.fields):
        return ""
    return "".join(CODES[f.type] for f in layout.fields)


def _min_element_bytes(field: Field) -> int:
    """Return the smallest size in bytes of one element of an array."""
    if field.struct is not None:
        return min_bytes(field.struct)
    return WIDTHS.get(field.type) or {"uvarint": 1, "int16": 2, "int32": 4}[field.element_length or "uvarint"]


def min_bytes(layout: Layout) -> int:
    """Return the smallest size in bytes of a struct."""
    total = 1 if layout.flexible else 0
    for field in layout.fields:
        if field.length is not None:
            total += {"uvarint": 1, "int8": 1, "int16": 2, "int32": 4}[field.length]
        elif field.struct is not None:
            total += min_bytes(field.struct)
        else:
            total += WIDTHS[field.type]
    return total


@cached_on_owner
def _tag_readers(layout: Layout) -> dict[int | None, tuple[str, Decoder]]:
    return {f.tag: (f.name, decoder(Layout(f.name, (f,), flexible=False))) for f in layout.tagged}


def _read_tags(data: bytes, pos: int, count: int, layout: Layout, values: dict[str, Any], flags: list[int]) -> int:
    """Read a non-empty tag buffer into `values`, with unknown tags as [tag, bytes] pairs under ``_tags``."""
    flags[0] |= TAGGED
    if count > 127:
        count, pos = read_uvarint(data, pos, count)
    if count * 2 > len(data) - pos:
        raise Irregularity
    readers = _tag_readers(layout)
    last_tag = -1
    for _ in range(count):
        tag, pos = data[pos], pos + 1
        if tag > 127:
            tag, pos = read_uvarint(data, pos, tag)
        size, pos = data[pos], pos + 1
        if size > 127:
            size, pos = read_uvarint(data, pos, size)
        end = pos + size
        if tag <= last_tag or end > len(data):
            raise Irregularity
        last_tag = tag
        if (reader := readers.get(tag)) is not None:
            name, decode = reader
            tag_values, value_end, tag_flags = decode(data, pos)
            if value_end != end:
                raise Irregularity
            flags[0] |= tag_flags
            values[name] = tag_values[name]
        else:
            values.setdefault("_tags", []).append([tag, data[pos:end]])
        pos = end
    return pos
