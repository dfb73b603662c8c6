"""Hypothesis strategies for Kafka's messages: layouts of the schemas, and values and bytes for any layout."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dissectors import schemas
from dissectors.messages.message import api_layouts
from dissectors.schemas import VersionRange
from dissectors.wire.encode import encode
from dissectors.wire.layout import Field, Layout, layout
from dissectors.wire.primitives import uuid_text
from tests.kproxy.frames import with_length_prefix

#: (name, version) of every message in the schemas.
LAYOUTS = [(name, version) for name in schemas.message_names()
           for version in VersionRange.parse(schemas.message(name)["versions"])]  # fmt: skip
#: (api key, version) of every API.
API_VERSIONS = [(api.key, version) for api in schemas.apis() for version in api.versions]

_UNKNOWN_TAGS = range(10_000, 1 << 32)  # higher than any tag in the schemas
_TEXT = st.text(max_size=8)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16).map(uuid_text),
    "string": _TEXT | st.integers(120, 300).map("x".__mul__),
    "bytes": st.binary(max_size=8),
    "records": st.binary(max_size=8),
}


def layouts() -> st.SearchStrategy[Layout]:
    """Return a strategy for the layouts of all messages in all versions."""
    return st.sampled_from(LAYOUTS).map(lambda name_version: layout(*name_version))


def values(shape: Layout) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for values of `shape` as `decode` returns them, including nulls and known and unknown tags."""
    optional: dict[str, st.SearchStrategy[Any]] = {field.name: _value(field) for field in shape.tagged}
    if shape.flexible:
        tag = st.integers(_UNKNOWN_TAGS.start, _UNKNOWN_TAGS.stop - 1)
        tags = st.dictionaries(tag, st.binary(max_size=8), min_size=1, max_size=2)
        optional["_tags"] = tags.map(lambda tags: [list(pair) for pair in sorted(tags.items())])
    return st.fixed_dictionaries({field.name: _value(field) for field in shape.fields}, optional=optional)


def _value(field: Field) -> st.SearchStrategy[Any]:
    strategy = values(field.struct) if field.struct is not None else _PRIMITIVES[field.type]
    if field.array:
        strategy = st.lists(strategy, max_size=2)
    return st.none() | strategy if field.nullable else strategy


@st.composite
def damaged(draw: st.DrawFn, undamaged: st.SearchStrategy[bytes]) -> bytes:
    """Draw bytes from `undamaged`; up to four times, overwrite, remove or insert some of them or cut off the end."""
    data = draw(undamaged)
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(data)))
        removed_count = draw(st.sampled_from([0, 1, 2, 4, len(data)]))
        data = data[:position] + draw(_INSERTIONS) + data[position + removed_count :]
    return data


#: Bytes that corrupt lengths, presence markers, booleans and tags.
_INSERTIONS = st.binary(max_size=3) | st.sampled_from(
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x00", b"\xff", b"\x02", b"\xc3"]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a complete request frame of any API version."""
    key, version = draw(st.sampled_from(API_VERSIONS))
    layouts = api_layouts(key, version)
    assert layouts is not None
    header = draw(values(layouts.request_header)) | {"request_api_key": key, "request_api_version": version}
    return with_length_prefix(
        encode(layouts.request_header, header) + encode(layouts.request, draw(values(layouts.request)))
    )


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """Draw a complete response frame, and the API key and version of its request."""
    key, version = draw(st.sampled_from(API_VERSIONS))
    layouts = api_layouts(key, version)
    assert layouts is not None
    header = draw(values(layouts.response_header))
    return (
        with_length_prefix(
            encode(layouts.response_header, header) + encode(layouts.response, draw(values(layouts.response)))
        ),
        key,
        version,
    )
