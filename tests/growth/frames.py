"""Build frames of any API version in which one part can have any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from dissectors import schemas
from dissectors.messages.message import api_layouts
from dissectors.records.encode import encode as encode_batches
from dissectors.wire.encode import encode
from dissectors.wire.layout import Field, Layout
from dissectors.wire.primitives import uuid_text
from tests.kproxy.frames import with_length_prefix

#: The path of a part of a message: names of fields, or `TAGS` for the tag buffer of a struct.
Path = tuple[str, ...]

TAGS = "_tags"
_FIRST_UNKNOWN_TAG = 10_000
_HEADER: Path = ("header",)
_NOWHERE: Path = ("nowhere",)


def _batch(record_count: int, **fields: Any) -> bytes:
    return encode_batches([{"records": [{"key": b"k", "value": b"v", **fields}] * record_count}])


def _subscription(topics: int) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name for name in (b"topic-%d" % index for index in range(topics)))
    return b"\0\0" + topics.to_bytes(4, "big") + names + bytes(4)


#: Contents of a bytes field, by size.
BYTES: dict[str, Callable[[int], bytes]] = {
    "empty": lambda size: bytes(size - 1),
    "zeros": bytes,
    "subscription": _subscription,
    "short subscription": lambda size: _subscription(size)[:-1],
}

#: Contents of a records field, by size.
RECORDS: dict[str, Callable[[int], bytes]] = {
    "garbage": lambda size: b"x" * size,
    "records": _batch,
    "batches": lambda size: _batch(1) * size,
    "headers": lambda size: _batch(1, headers=[{"key": f"h{index}", "value": b"v"} for index in range(size)]),
    "damaged batches": lambda size: (_batch(1)[:-1] + b"w") * size,
}

#: Ways to damage a frame, without its length prefix.
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "right": lambda frame: frame,
    "cut": lambda frame: frame[:-1],
    "wedged": lambda frame: frame[:20] + bytes(4) + frame[20:],
    "extended": lambda frame: frame + bytes(2),
}


@dataclass(frozen=True, slots=True)
class GrowingFrame:
    """A frame with a part that grows.

    Args:
        api: Kafka's name.
        version: Its version.
        is_request: Whether the part is in the request, or in the response.
        path: The path of the part that grows.
        content: A key of `BYTES` or `RECORDS`, the content of bytes and records fields.
        damage: A key of `DAMAGE`, the additional damage to the frame.
    """

    api: str
    version: int
    is_request: bool
    path: Path
    content: str
    damage: str

    def __str__(self) -> str:
        kind = "request" if self.is_request else "response"
        return f"{self.api} v{self.version} {kind}: {'.'.join(self.path)}, {self.content}, {self.damage}"

    def exchange(self, size: int) -> tuple[bytes, bytes]:
        """Return a request and its response, with `size` elements, bytes, records or tags in the part that grows."""
        api_entry = schemas.api_by_name(self.api)
        assert api_entry is not None
        layouts = api_layouts(api_entry.key, self.version)
        assert layouts is not None
        request, response = (
            _Values(self, size, path=None if is_request == self.is_request else _NOWHERE)
            for is_request in (True, False)
        )
        header = request.struct(layouts.request_header, _HEADER)
        header |= {"request_api_key": api_entry.key, "request_api_version": self.version, "correlation_id": 7}
        request_bytes = encode(layouts.request_header, header) + encode(
            layouts.request, request.struct(layouts.request)
        )
        header = response.struct(layouts.response_header, _HEADER) | {"correlation_id": 7}
        response_bytes = encode(layouts.response_header, header) + encode(
            layouts.response, response.struct(layouts.response)
        )
        damage = DAMAGE[self.damage]
        if self.is_request:
            return with_length_prefix(damage(request_bytes)), with_length_prefix(response_bytes)
        return with_length_prefix(request_bytes), with_length_prefix(damage(response_bytes))


def parts(layout: Layout, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each part of a message that can grow: arrays, strings, bytes, records and tag buffers."""
    if layout.flexible:
        yield (*path, TAGS)
    for field in (*layout.fields, *layout.tagged):
        if field.array or field.type in ("string", "bytes", "records"):
            yield (*path, field.name)
        if field.struct is not None:
            yield from parts(field.struct, (*path, field.name))


def growing_frames(api: str, version: int, *, is_request: bool) -> Iterator[GrowingFrame]:
    """Yield a growing frame for every way in which a message can grow."""
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    layouts = api_layouts(api_entry.key, version)
    assert layouts is not None
    header, layout = (
        (layouts.request_header, layouts.request) if is_request else (layouts.response_header, layouts.response)
    )
    types = _types(layout)
    contents = (*(RECORDS if "records" in types else ()), *(BYTES if "bytes" in types else ())) or ("zeros",)
    for path in (*parts(header, _HEADER), *parts(layout)):
        for content in contents:
            for damage in DAMAGE:
                yield GrowingFrame(api, version, is_request, path, content, damage)


def _types(layout: Layout) -> set[str]:
    fields = (*layout.fields, *layout.tagged)
    return {field.type for field in fields}.union(
        *(_types(field.struct) for field in fields if field.struct is not None)
    )


class _Values:
    """The values of a message: every array has one element, except the one that grows. No two values are equal."""

    def __init__(self, growing: GrowingFrame, size: int, *, path: Path | None = None) -> None:
        self._path = growing.path if path is None else path
        self._size = size
        self._content = growing.content
        self._numbers = count(1)

    def struct(self, layout: Layout, path: Path = ()) -> dict[str, Any]:
        """Return the values of a struct. Its only tagged field is the one on the path of the growing part."""
        on_path = [field for field in layout.tagged if self._path[: len(path) + 1] == (*path, field.name)]
        struct_values = {
            member.name: self._field(member, (*path, member.name)) for member in (*layout.fields, *on_path)
        }
        if (*path, TAGS) == self._path:
            struct_values[TAGS] = [[_FIRST_UNKNOWN_TAG + index, b"x"] for index in range(self._size)]
        return struct_values

    def _field(self, field: Field, path: Path) -> Any:
        size = self._size if path == self._path else 1
        if not field.array:
            return self._value(field, path, size)
        return [self._value(field, path, 1) for _ in range(size)]

    def _value(self, field: Field, path: Path, size: int) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, path)
        number = next(self._numbers)
        if field.name.endswith("error_code"):
            return number % 100 + 1
        match field.type:
            case "string":
                return "consumer" if field.name == "protocol_type" else f"{field.name}-{number}{'x' * (size - 1)}"
            case "bytes":
                return BYTES.get(self._content, bytes)(size)
            case "records":
                return RECORDS.get(self._content, bytes)(size)
            case "uuid":
                return uuid_text(number.to_bytes(16, "big"))
            case "bool":
                return False
            case "float64":
                return float(number)
        return number % 100
