"""The fast path: a layout compiled to straight-line code that reads clean bytes into values.

Each layout becomes one Python function at its first use: a run of fixed-width fields, and the length that follows it,
is one `struct` call; arrays are loops in place; nothing is looked up per field. It accepts only what is entirely
regular. Anything odd, from a bad length to a boolean of 2, raises, and the walk reads the same bytes again to say
what is wrong and where.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from dissectors.wire.layout import CODES, WIDTHS, Field, Layout, once
from dissectors.wire.plausibility import Plausible, check_of
from dissectors.wire.primitives import MOST_ELEMENTS, Odd, read_uvarint, uuid_text

#: Takes the bytes and where to start; gives the values, one past the last byte read, and flags: `TAGGED`, `ERROR_CODE`.
#: Raises ValueError, IndexError or struct.error on anything that is not entirely regular.
Decoder = Callable[[bytes, int], tuple[dict[str, Any], int, int]]
Irregular = (ValueError, IndexError, struct.error)

#: A tag buffer that is not empty was read.
TAGGED: Final = 1
#: An error code other than 0 was read.
ERROR_CODE: Final = 2

_LENGTH_CODES = {"int8": ("b", 1), "int16": ("h", 2), "int32": ("i", 4)}
_ENCODINGS = {None, "uvarint", *_LENGTH_CODES}
_TRUTH = (False, True)


@once
def decoder(layout: Layout) -> Decoder:
    """The compiled reader of a layout."""
    return _Compiler().compile(layout) if _as_in_schemas(layout) else _refuse


def _as_in_schemas(layout: Layout) -> bool:
    """Whether a layout is written as some schema could have it; a few edits go further, and are left to the walk."""
    if layout.tag_fault:
        return False
    return all(
        {one.length, one.element_length} <= _ENCODINGS
        and one.exception is None
        and (one.struct is None or _as_in_schemas(one.struct))
        for one in (*layout.fields, *layout.tagged)
    )


def _refuse(data: bytes, pos: int) -> tuple[dict[str, Any], int, int]:
    raise Odd


class _Compiler:
    """Writes the source of one decoder; every local name in it is made here, none comes from the wire."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "Odd": Odd, "uvarint": read_uvarint, "uuid": uuid_text, "TRUTH": _TRUTH, "unpack": struct.unpack_from,
            "tags": _tags,
        }  # fmt: skip
        self.count = 0
        self.depth = 1

    def compile(self, layout: Layout) -> Decoder:
        self.emit("e = len(b); c = 0; f = [0]")
        if _has_records(layout):
            self.emit("m = memoryview(b)")
        self.emit(f"return {self.struct(layout)}, p, f[0]")
        source = "def decode(b, p):\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, f"<layout {layout.name}>", "exec"), self.constants)  # noqa: S102  # our own source
        made: Decoder = self.constants["decode"]
        return made

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def struct(self, layout: Layout) -> str:
        """Emit the reading of a struct; return the expression of its dict."""
        items: list[str] = []
        run: list[tuple[str, str, int]] = []  # (variable, struct code, width) not yet read
        for field in layout.fields:
            value = self.name()
            wrap = value
            if not field.array and field.type in WIDTHS:
                run.append((value, CODES[field.type], WIDTHS[field.type]))
                wrap = {"bool": f"TRUTH[{value}]", "uuid": f"uuid({value})"}.get(field.type, value)
            else:
                self.variable(field, value, run)
                run = []
            items.append(f"{field.name!r}: {self.plausible(field, wrap)}")
        self.fixed(run)
        expression = "{" + ", ".join(items) + "}"
        if not layout.flexible:
            return expression
        count, made = self.name("t"), self.name()
        self.emit(f"{made} = {expression}")
        self.emit(f"{count} = b[p]; p += 1")
        self.emit(f"if {count}: p = tags(b, p, {count}, {self.constant('L', layout)}, {made}, f)")
        return made

    def plausible(self, field: Field, value: str) -> str:
        """The expression of a value, through the check that its field has, if it has one."""
        check = check_of(field)
        if check is None:
            return value
        if field.type == "int16":  # an error code
            return f"({value} and {self.constant('P', _checked_code(check))}({value}, f))"
        return f"({value} and {self.constant('P', _checked(check))}({value}))"

    def fixed(self, run: list[tuple[str, str, int]]) -> None:
        if not run:
            return
        unpack = self.constant("S", struct.Struct(">" + "".join(code for _, code, _ in run)).unpack_from)
        self.emit(
            f"{', '.join(name for name, _, _ in run)}, = {unpack}(b, p); p += {sum(width for _, _, width in run)}"
        )

    def variable(self, field: Field, value: str, run: list[tuple[str, str, int]]) -> None:
        """A field that has a length: read the run before it and the length in one go, then the value."""
        if field.length is None:
            self.fixed(run)
            assert field.struct is not None
            self.emit(f"{value} = {self.struct(field.struct)}")
            return
        size = self.name("n")
        self.length(field.length, size, run)
        if field.type == "struct" and not field.array:
            self.present(field, value, size)
            return
        compact = field.length == "uvarint"
        self.emit(f"if {size} > 0:" if compact else f"if {size} >= 0:")
        self.depth += 1
        if compact:
            self.emit(f"{size} -= 1")
        if field.array:
            self.array(field, value, size)
        else:
            self.sized(field.type, value, size)
        self.depth -= 1
        self.null(field.nullable, value, size, compact)

    def length(self, encoding: str, size: str, run: list[tuple[str, str, int]]) -> None:
        if encoding == "uvarint":
            self.fixed(run)
            self.emit(f"{size} = b[p]; p += 1")
            self.emit(f"if {size} > 127: {size}, p = uvarint(b, p, {size})")
        else:
            self.fixed([*run, (size, *_LENGTH_CODES[encoding])])

    def null(self, nullable: bool, value: str, size: str, compact: bool) -> None:
        if nullable and compact:
            self.emit(f"else: {value} = None")
        elif nullable:
            self.emit(f"elif {size} == -1: {value} = None")
        if not (nullable and compact):
            self.emit("else: raise Odd")

    def present(self, field: Field, value: str, mark: str) -> None:
        """A nullable struct: 1 is there; null is -1, and 0 in a tagged field."""
        assert field.struct is not None
        self.emit(f"if {mark} == 1:")
        self.depth += 1
        self.emit(f"{value} = {self.struct(field.struct)}")
        self.depth -= 1
        self.emit(f"elif {mark} == {0 if field.length == 'uvarint' else -1}: {value} = None")
        self.emit("else: raise Odd")

    def sized(self, kind: str, value: str, size: str) -> None:
        end = self.name("q")
        self.emit(f"{end} = p + {size}")
        self.emit(f"if {end} > e: raise Odd")
        source = {"string": f"b[p:{end}].decode()", "records": f"m[p:{end}]"}.get(kind, f"b[p:{end}]")
        self.emit(f"{value} = {source}; p = {end}")

    def array(self, field: Field, value: str, size: str) -> None:
        element = field.struct
        least = _least(field)
        # An array that claims more than the bytes can hold must not get as far as an allocation.
        self.emit(f"if {size} * {max(least, 1)} > e - p: raise Odd")
        if element is not None:
            self.emit(f"c += {size}")
            self.emit(f"if c > {MOST_ELEMENTS}: raise Odd")
        if element is None and field.type in WIDTHS:
            self.primitives(field.type, value, size)
        elif element is not None and (codes := _fixed_struct(element)):
            names = [self.name() for _ in element.fields]
            width, end = sum(WIDTHS[f.type] for f in element.fields), self.name("q")
            unpack = self.constant("S", struct.Struct(">" + codes).iter_unpack)
            wraps = {"bool": "TRUTH[{}]", "uuid": "uuid({})"}
            items = [
                f"{f.name!r}: {self.plausible(f, wraps.get(f.type, '{}').format(n))}"
                for f, n in zip(element.fields, names, strict=True)
            ]
            self.emit(f"{end} = p + {size} * {width}")
            self.emit(f"{value} = [{{{', '.join(items)}}} for {', '.join(names)}, in {unpack}(b[p:{end}])]; p = {end}")
        else:
            self.emit(f"{value} = []")
            self.emit(f"for _ in range({size}):")
            self.depth += 1
            one = self.name()
            if element is not None:
                one = self.struct(element)
            else:
                self.variable(Field("", field.type, length=field.element_length), one, [])
            self.emit(f"{value}.append({one})")
            self.depth -= 1

    def primitives(self, kind: str, value: str, size: str) -> None:
        if kind == "uuid":
            read = f"[uuid(b[i:i + 16]) for i in range(p, p + {size} * 16, 16)]"
        elif kind == "bool":
            read = f"[TRUTH[x] for x in b[p:p + {size}]]"
        else:
            read = f"list(unpack(f'>{{{size}}}{CODES[kind]}', b, p))"
        self.emit(f"{value} = {read}; p += {size} * {WIDTHS[kind]}")


def _checked(check: Plausible) -> Callable[[Any], Any]:
    """A function that returns its value, or raises if that is implausible."""

    def checked(value: Any) -> Any:
        if not check(value):
            raise Odd
        return value

    return checked


def _checked_code(check: Plausible) -> Callable[[int, list[int]], int]:
    """The same for an error code other than 0, which it adds to the flags of the frame."""

    def checked(value: int, flags: list[int]) -> int:
        if not check(value):
            raise Odd
        flags[0] |= ERROR_CODE
        return value

    return checked


def _has_records(layout: Layout) -> bool:
    return any(f.type == "records" or (f.struct is not None and _has_records(f.struct)) for f in layout.fields)


def _fixed_struct(layout: Layout) -> str:
    """The struct codes of a layout of fixed-width fields only, else nothing."""
    if layout.flexible or not all(f.type in WIDTHS and not f.array for f in layout.fields):
        return ""
    return "".join(CODES[f.type] for f in layout.fields)


def _least(field: Field) -> int:
    """The fewest bytes that one element of an array can take."""
    if field.struct is not None:
        return least_bytes(field.struct)
    return WIDTHS.get(field.type) or {"uvarint": 1, "int16": 2, "int32": 4}[field.element_length or "uvarint"]


def least_bytes(layout: Layout) -> int:
    """The fewest bytes that a struct can take."""
    total = 1 if layout.flexible else 0
    for field in layout.fields:
        if field.length is not None:
            total += {"uvarint": 1, "int8": 1, "int16": 2, "int32": 4}[field.length]
        elif field.struct is not None:
            total += least_bytes(field.struct)
        else:
            total += WIDTHS[field.type]
    return total


@once
def _tag_readers(layout: Layout) -> dict[int | None, tuple[str, Decoder]]:
    return {f.tag: (f.name, decoder(Layout(f.name, (f,), flexible=False))) for f in layout.tagged}


def _tags(data: bytes, pos: int, count: int, layout: Layout, values: dict[str, Any], flags: list[int]) -> int:
    """Read a tag buffer that is not empty into `values`; unknown tags as `_tags`, pairs of tag and bytes."""
    flags[0] |= TAGGED
    if count > 127:
        count, pos = read_uvarint(data, pos, count)
    if count * 2 > len(data) - pos:
        raise Odd
    readers = _tag_readers(layout)
    last = -1
    for _ in range(count):
        tag, pos = data[pos], pos + 1
        if tag > 127:
            tag, pos = read_uvarint(data, pos, tag)
        size, pos = data[pos], pos + 1
        if size > 127:
            size, pos = read_uvarint(data, pos, size)
        end = pos + size
        if tag <= last or end > len(data):
            raise Odd
        last = tag
        if (known := readers.get(tag)) is not None:
            name, read = known
            made, stop, inside = read(data, pos)
            if stop != end:
                raise Odd
            flags[0] |= inside
            values[name] = made[name]
        else:
            values.setdefault("_tags", []).append([tag, data[pos:end]])
        pos = end
    return pos
